package node

import (
	"io"
	"strings"
	"testing"
)

func TestEcho(t *testing.T) {
	env := []string{"SSH_SESSION_ID=sid-1", "USER=root"}
	quiet := &PTY{Modes: map[uint8]uint32{modeECHO: 0}}
	loud := &PTY{Modes: map[uint8]uint32{}}
	for _, tc := range []struct {
		why     string
		command string
		pty     *PTY
		in      string
		want    string
		status  uint32
	}{
		{why: "plain standin-echo gives lines back", command: "standin-echo", in: "a\nb\n", want: "a\nb\n"},
		{why: "so does cat, on a terminal with carriage returns", command: "cat", pty: quiet, in: "a\n", want: "a\r\n"},
		{why: "a terminal echoes what is typed unless told not to", command: "cat", pty: loud, in: "a\r", want: "a\r\na\r\n"},
		{why: "the last line need not end", command: "cat", in: "a", want: "a\n"},
		{why: "variables are put in", command: `echo "$SSH_SESSION_ID ${USER} $NONE."`, want: "sid-1 root .\n"},
		{why: "single quotes keep them out", command: `echo '$USER'`, want: "$USER\n"},
		{why: "commands follow each other, the last may be cat", command: `echo "OK $SSH_SESSION_ID"; exec cat`, in: "x\n", want: "OK sid-1\nx\n"},
		{why: "assignments last", command: "A=1; echo $A", want: "1\n"},
		{why: "the status is that of the last command", command: "false", status: 1},
		{why: "exit takes a status", command: "exit 7", status: 7},
		{why: "what it does not know it says", command: "ls", want: "standin-echo: ls: command not found\n", status: 127},
		{why: "what is sent is taken and its checksum told", command: "head -c 3 | sha256sum", in: "abcdef", want: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  -\n"},
		{why: "numbers until so many bytes", command: "seq 1 100 | head -c 8", want: "1\n2\n3\n4\n"},
		{why: "numbers cut inside of one", command: "seq 1 12 | head -c 20", want: "1\n2\n3\n4\n5\n6\n7\n8\n9\n10"},
		{why: "no more numbers than asked for", command: "seq 1 2 | head -c 20", want: "1\n2\n"},
		{why: "a shell prompts on a terminal that echoes", pty: loud, in: "exit 3\r", want: "$ exit 3\r\n", status: 3},
		{why: "a shell without echo is silent but for answers", pty: quiet, in: "echo hi\n\x04", want: "hi\r\n"},
		{why: "stty switches echo off", pty: loud, in: "stty -echo\recho hi\r\x04", want: "$ stty -echo\r\nhi\r\n"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			var out strings.Builder
			e := newEcho(Request{Command: tc.command, PTY: tc.pty, Env: env})
			exit := e.Run(strings.NewReader(tc.in), &out, &out)
			if out.String() != tc.want || exit.Status != tc.status {
				t.Errorf("output %q with status %d, want %q with %d", out.String(), exit.Status, tc.want, tc.status)
			}
		})
	}
}

func TestEchoAnswersEachReadAtOnce(t *testing.T) {
	in, typist := io.Pipe()
	writes := make(chan string, 10)
	go newEcho(Request{Command: "cat"}).Run(in, writerFunc(func(p []byte) { writes <- string(p) }), io.Discard)
	io.WriteString(typist, "a\nb\n")
	if got := <-writes; got != "a\nb\n" {
		t.Errorf("first write %q", got)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
