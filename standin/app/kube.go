package app

import (
	"errors"

	"shakedown.dev/shakedown/standin/process"
)

func newKube(process.Env) (process.Service, error) { return nil, errors.New("todo") }
