// Package exit says how the program ends: the exit codes, and errors that carry one.
//
// The place nearest the cause of an error decides on its code and hint; outer layers only fill a blank.
package exit

import "errors"

// Code is an exit status of the shakedown program.
type Code int

// The exit codes, as a CI gate may rely on them.
const (
	Pass         Code = 0   // the verdict is pass, or the verb did what it says
	Fail         Code = 1   // the verdict is fail
	Inconclusive Code = 2   // nothing was shown either way
	Broken       Code = 3   // an error of the harness or of the machine
	Unhealed     Code = 4   // something that was changed could not be undone
	Usage        Code = 64  // the command line or a file given to it is wrong (EX_USAGE of sysexits.h)
	Interrupted  Code = 130 // ended by a signal, with everything cleaned up
)

type coded struct {
	error
	code Code
}

func (e coded) Unwrap() error { return e.error }

type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// With returns err with an exit code, unless it has one already. With(nil, …) is nil.
func With(code Code, err error) error {
	if err == nil || errors.As(err, new(coded)) {
		return err
	}
	return coded{err, code}
}

// Hint returns err with a sentence that says what to do, unless it has one already. Hint(nil, …) is nil.
func Hint(err error, hint string) error {
	if err == nil || errors.As(err, new(hinted)) {
		return err
	}
	return hinted{err, hint}
}

// CodeOf is the code of err: Pass for nil, Broken where nobody decided.
func CodeOf(err error) Code {
	if err == nil {
		return Pass
	}
	if c, ok := errors.AsType[coded](err); ok {
		return c.code
	}
	return Broken
}

// HintOf is what err says to do, or "".
func HintOf(err error) string {
	if h, ok := errors.AsType[hinted](err); ok {
		return h.hint
	}
	return ""
}
