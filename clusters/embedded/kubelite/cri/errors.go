package cri

import (
	"golang.org/x/sys/unix"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const errBrokenPipe = unix.EPIPE

// The kubelet tells "gone" from "failed" by the gRPC code, also in process.
func notFound(kind, id string) error {
	return status.Errorf(codes.NotFound, "%s %q: not found", kind, id)
}

func unimplemented(what string) error {
	return status.Error(codes.Unimplemented, what)
}
