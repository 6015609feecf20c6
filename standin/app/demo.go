package app

import (
	"context"
	"errors"
)

func demo(ctx context.Context, args []string, s Streams) error { return errors.New("todo") }
