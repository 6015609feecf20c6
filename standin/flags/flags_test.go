package flags

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type values struct {
	Out   string
	Roles []string
	Force bool
	TTL   time.Duration
}

func parse(line string) (values, []string, error) {
	v := values{TTL: time.Hour}
	rest, err := Parse(strings.Fields(line), []Flag{
		{Name: "out", Short: "o", Text: &v.Out}, {Name: "roles", List: &v.Roles}, {Name: "force", Short: "f", Switch: &v.Force}, {Name: "ttl", Duration: &v.TTL},
	})
	return v, rest, err
}

func TestParse(t *testing.T) {
	for _, row := range []struct {
		name, line string
		want       values
		rest       []string
	}{
		{"flags before and after the arguments", "-o x a --roles=r1 b --roles r2", values{Out: "x", Roles: []string{"r1", "r2"}, TTL: time.Hour}, []string{"a", "b"}},
		{"a switch takes no value", "-f file", values{Force: true, TTL: time.Hour}, []string{"file"}},
		{"a switch is switched off", "--force --no-force", values{TTL: time.Hour}, nil},
		{"a switch with a value", "--force=false", values{TTL: time.Hour}, nil},
		{"a duration", "--ttl=24h", values{TTL: 24 * time.Hour}, nil},
		{"nothing after -- is a flag", "-f -- -o", values{Force: true, TTL: time.Hour}, []string{"-o"}},
		{"a dash is an argument", "-", values{TTL: time.Hour}, []string{"-"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, rest, err := parse(row.line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(row.rest, rest); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for line, want := range map[string]string{
		"--nope":        "unknown long flag '--nope'",
		"-x":            "unknown short flag '-x'",
		"--out":         "expected argument for flag '--out'",
		"--ttl=soon":    "flag --ttl: time: invalid duration",
		"--force=maybe": "is not true or false",
	} {
		if _, _, err := parse(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
	if _, err := Parse(nil, []Flag{{Name: "roles", List: new([]string), Required: true}}); err == nil || err.Error() != "required flag --roles not provided" {
		t.Errorf("a required flag: got %v", err)
	}
}
