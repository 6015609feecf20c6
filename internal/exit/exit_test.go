package exit_test

import (
	"errors"
	"fmt"
	"testing"

	"shakedown.dev/shakedown/internal/exit"
)

func TestCodeAndHint(t *testing.T) {
	cause := errors.New("disk full")
	for _, row := range []struct {
		why  string
		err  error
		code exit.Code
		hint string
	}{
		{"no error passes", nil, exit.Pass, ""},
		{"an error nobody classified is ours", cause, exit.Broken, ""},
		{"a code survives wrapping", fmt.Errorf("up: %w", exit.With(exit.Usage, cause)), exit.Usage, ""},
		{"the inner code wins", exit.With(exit.Fail, fmt.Errorf("up: %w", exit.With(exit.Usage, cause))), exit.Usage, ""},
		{"the inner hint wins", exit.Hint(exit.Hint(cause, "free some"), "buy one"), exit.Broken, "free some"},
		{"code and hint go together", exit.Hint(exit.With(exit.Unhealed, cause), "heal it"), exit.Unhealed, "heal it"},
		{"nothing turns nil into an error", exit.Hint(exit.With(exit.Fail, nil), "x"), exit.Pass, ""},
	} {
		t.Run(row.why, func(t *testing.T) {
			if got := exit.CodeOf(row.err); got != row.code {
				t.Errorf("CodeOf = %d, want %d", got, row.code)
			}
			if got := exit.HintOf(row.err); got != row.hint {
				t.Errorf("HintOf = %q, want %q", got, row.hint)
			}
		})
	}
}

func TestWithKeepsTheCause(t *testing.T) {
	cause := errors.New("disk full")
	if err := exit.Hint(exit.With(exit.Usage, cause), "x"); !errors.Is(err, cause) || err.Error() != "disk full" {
		t.Fatalf("%v lost its cause", err)
	}
}
