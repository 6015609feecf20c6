package ssh

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

// told is a connection whose write is told of the reset, so that its read sees an ordinary end.
type told struct{ net.Conn }

func (told) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.ECONNRESET)}
}
func (told) Read([]byte) (int, error) { return 0, io.EOF }

func TestResetThatAWriteWasToldOf(t *testing.T) {
	s := &socket{Conn: told{}}
	if _, err := s.Read(nil); !errors.Is(err, io.EOF) {
		t.Errorf("an end without a reset: %v", err)
	}
	if _, err := s.Write(nil); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the write: %v", err)
	}
	if _, err := s.Read(nil); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the end after it: %v, want the reset", err)
	}
}
