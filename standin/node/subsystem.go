package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/pkg/sftp"
)

// startSubsystem starts the only subsystem there is.
func startSubsystem(req Request) (Program, error) {
	if req.Subsystem != "sftp" {
		return nil, fmt.Errorf("unrecognized subsystem: %v", req.Subsystem)
	}
	a, err := lookup(req.Login)
	if err != nil {
		return nil, err
	}
	// Files are served by this process, with its own rights.
	if uint32(os.Getuid()) != a.uid {
		return nil, fmt.Errorf("sftp: files are served only to the login that the node runs as, not to %q", req.Login)
	}
	return &sftpProgram{home: a.home, quit: make(chan struct{})}, nil
}

type sftpProgram struct {
	home string
	once sync.Once
	quit chan struct{}
}

// stream joins the session's two directions.
type stream struct {
	io.Reader
	io.Writer
	close func()
}

func (s stream) Close() error { s.close(); return nil }

func (p *sftpProgram) Run(in io.Reader, out, _ io.Writer) Exit {
	server, err := sftp.NewServer(stream{in, out, p.Kill}, sftp.WithServerWorkingDirectory(p.home))
	if err != nil {
		return Exit{Status: 1}
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve() }()
	select {
	case err = <-done:
	case <-p.quit:
		return Exit{Status: 1}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return Exit{Status: 1}
	}
	return Exit{}
}

func (*sftpProgram) Resize(uint32, uint32) {}
func (*sftpProgram) Signal(string)         {}
func (p *sftpProgram) Kill()               { p.once.Do(func() { close(p.quit) }) }
