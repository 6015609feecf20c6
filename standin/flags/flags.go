// Package flags parses command lines as the real programs take them: long and
// short flags, with = or a space, before and after the arguments.
package flags

import (
	"fmt"
	"strings"
	"time"
)

// Flag is one flag of a command. Exactly one of the targets is set.
type Flag struct {
	Name     string // without dashes
	Short    string // one letter, or empty
	Text     *string
	List     *[]string
	Switch   *bool
	Duration *time.Duration
	Required bool
}

// Parse sets the flags' targets and returns the arguments left over. An unknown
// flag or a bad value is an error that names it.
func Parse(args []string, known []Flag) ([]string, error) {
	var rest []string
	given := map[string]bool{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			rest = append(rest, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		f, on, err := find(known, name, strings.HasPrefix(arg, "--"))
		if err != nil {
			return nil, err
		}
		given[f.Name] = true
		if f.Switch != nil && !hasValue {
			*f.Switch = on
			continue
		}
		if !hasValue {
			if i+1 == len(args) {
				return nil, fmt.Errorf("expected argument for flag '%s'", arg)
			}
			i++
			value = args[i]
		}
		if err := f.set(value); err != nil {
			return nil, fmt.Errorf("flag --%s: %w", f.Name, err)
		}
	}
	return rest, missing(known, given)
}

func missing(known []Flag, given map[string]bool) error {
	for _, f := range known {
		if f.Required && !given[f.Name] {
			return fmt.Errorf("required flag --%s not provided", f.Name)
		}
	}
	return nil
}

// find looks a flag up; --no-NAME switches a switch off.
func find(known []Flag, name string, long bool) (Flag, bool, error) {
	for _, f := range known {
		if long && f.Name == name || f.Short != "" && f.Short == name {
			return f, true, nil
		}
		if long && f.Switch != nil && "no-"+f.Name == name {
			return f, false, nil
		}
	}
	dashes := "-"
	if long {
		dashes = "--"
	}
	return Flag{}, false, fmt.Errorf("unknown %s flag '%s%s'", map[bool]string{true: "long", false: "short"}[long], dashes, name)
}

func (f Flag) set(value string) error {
	switch {
	case f.Text != nil:
		*f.Text = value
	case f.List != nil:
		*f.List = append(*f.List, value)
	case f.Switch != nil:
		switch value {
		case "true", "yes", "1":
			*f.Switch = true
		case "false", "no", "0":
			*f.Switch = false
		default:
			return fmt.Errorf("%q is not true or false", value)
		}
	case f.Duration != nil:
		d, err := time.ParseDuration(value)
		if err != nil {
			return err
		}
		*f.Duration = d
	}
	return nil
}
