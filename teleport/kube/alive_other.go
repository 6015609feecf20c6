//go:build !linux

package kube

import (
	"context"
	"errors"
	"net"
)

func heardFrom(context.Context, net.Conn) error { return errors.ErrUnsupported }
