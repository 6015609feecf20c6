//go:build !unix

package undo

import (
	"errors"
	"os"
)

// ErrLocked means that the run whose log it is still goes on.
var ErrLocked = errors.New("the run still goes on")

func lock(*os.File) error { return nil }
