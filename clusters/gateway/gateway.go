// Package gateway carries connections into a network over one stream: a Server inside dials for a Client outside. What
// goes through is not looked at, so that keys and sessions stay with the client, as do its clock and its history.
//
// Connections share the stream's fate and its bandwidth. One that is lost ends them all, each with ErrLost, which is
// no end that the other side brought about; the next one that is opened brings a new stream.
package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
)

// ErrLost is the end of all connections of a stream that broke.
var ErrLost = errors.New("the stream to the gateway in the cluster was lost")

// Silence is for how long a stream may have been lost before that is known.
const Silence = 2 * aliveEvery

// Bounds of a stream.
const (
	dialTimeout = 30 * time.Second // longer than the kernel's first SYN retries; callers with less patience close their end
	aliveEvery  = 10 * time.Second // a stream without an answer for as long again is lost
	maxLine     = 4096
)

// asked is what a client wants: a connection to an address or a name that the server's resolver knows.
type asked struct {
	Network string `json:"network"`
	Address string `json:"address"`
}

// Answer is what a gateway says to who asked for a connection: both empty, and the connection follows; or why there is
// none. It is one line of JSON.
type Answer struct {
	Error string `json:"error,omitempty"`
	Errno int    `json:"errno,omitempty"`
}

// Err is why there is no connection, with its errno for errors.Is; nil if there is one.
func (a Answer) Err() error {
	if a.Error == "" && a.Errno == 0 {
		return nil
	}
	return &refusal{a.Error, syscall.Errno(a.Errno)} //nolint:gosec // an errno
}

// AnswerTo tells what came of a dial.
func AnswerTo(err error) Answer {
	if err == nil {
		return Answer{}
	}
	a := Answer{Error: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		a.Errno = int(errno)
	}
	return a
}

// refusal is an answer that says no.
type refusal struct {
	text  string
	errno syscall.Errno
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Unwrap() error {
	if r.errno == 0 {
		return nil
	}
	return r.errno
}

func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.KeepAliveInterval, c.ConnectionWriteTimeout = aliveEvery, aliveEvery
	c.AcceptBacklog = 4096 // openings that no answer was given to yet: as many as a run may open at once
	c.StreamOpenTimeout = 0
	c.LogOutput = io.Discard
	return c
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// readLine reads one line and nothing behind it, which is the connection's.
func readLine(r io.Reader, v any) error {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, one); err != nil {
			return err
		}
		if one[0] == '\n' {
			return json.Unmarshal(line, v)
		}
		if line = append(line, one[0]); len(line) > maxLine {
			return fmt.Errorf("a line of more than %d bytes", maxLine)
		}
	}
}
