package chaos

import (
	"errors"
	"fmt"
	"testing"

	utilexec "k8s.io/client-go/util/exec"
)

func TestHowASignalWasSent(t *testing.T) {
	exited := func(code int) error {
		return fmt.Errorf("run kill: %w", utilexec.CodeExitError{Err: errors.New("terminated"), Code: code})
	}
	for _, row := range []struct {
		why  string
		err  error
		sent bool
	}{
		{"the command was done", nil, true},
		{"the container ended before the command did, and took it along", exited(137), true},
		{"the command was refused", exited(1), false},
		{"there is no such command", exited(127), false},
		{"nobody could be asked", errors.New("connection refused"), false},
	} {
		if err := sent(row.err); (err == nil) != row.sent {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}
