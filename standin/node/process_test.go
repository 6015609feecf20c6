package node

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestTerminalEnds: a program that lets go of its terminal before it exits is not hung up, one whose client is gone is.
func TestTerminalEnds(t *testing.T) {
	for _, tt := range []struct {
		says, script string
		out          io.Writer
		status       uint32
		signalled    bool
	}{
		{"it closes its output and exits later", "exec <&- >&- 2>&-; sleep 0.3; exit 7", io.Discard, 7, false},
		// By HUP, and by KILL a second later where whoever runs the tests has HUP ignored (nohup).
		{"its client is gone", "echo there; exec sleep 60", broken{}, 0, true},
	} {
		t.Run(tt.says, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/bin/sh", "-c", tt.script)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			p, err := startTerminal(cmd, &PTY{Width: 80, Height: 24})
			if err != nil {
				t.Fatal(err)
			}
			exit := p.Run(strings.NewReader(""), tt.out, io.Discard)
			if signalled := exit.Signal != ""; signalled != tt.signalled || !signalled && exit.Status != tt.status {
				t.Errorf("ended with %+v", exit)
			}
		})
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }
