package kube

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/moby/spdystream/spdy"
)

// Channels of the remote command protocols over WebSocket.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelError  = 3
	channelResize = 4
)

// maxStatus bounds what is kept of a stream's final status.
const maxStatus = 16 << 10

// tap understands the bytes of a stream that pass by, in both directions.
type tap struct {
	stream            *stream
	fromPod, fromUser *io.PipeWriter
	parsers           sync.WaitGroup

	mu     sync.Mutex
	status []byte // the final Status object
	kinds  map[spdy.StreamId]string
}

// tapped is the upgraded connection to the API server with a tap on it. What is read is parsed before it is passed on, so that output is recorded before the user has it.
type tapped struct {
	readWriteCloser
	stream *stream
}

func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.readWriteCloser.Read(p)
	if n > 0 {
		t.stream.fromPod.Add(int64(n))
		t.stream.tap.fromPod.Write(p[:n]) // never fails: parsers read to the end
	}
	return n, err
}

func (t *tapped) Write(p []byte) (int, error) {
	t.stream.toPod.Add(int64(len(p)))
	t.stream.tap.fromUser.Write(p)
	return t.readWriteCloser.Write(p)
}

func newTap(h http.Header, s *stream) *tap {
	t := &tap{stream: s, kinds: map[spdy.StreamId]string{}}
	fromPod, fromUser := io.Reader(nil), io.Reader(nil)
	fromPod, t.fromPod = pipe()
	fromUser, t.fromUser = pipe()
	parse := t.webSocket
	if strings.HasPrefix(strings.ToLower(h.Get("Upgrade")), "spdy") {
		parse = t.spdy
	}
	for _, r := range []io.Reader{fromPod, fromUser} {
		t.parsers.Go(func() {
			parse(r, r == fromUser)
			io.Copy(io.Discard, r) // what is not understood must not stop the stream
		})
	}
	return t
}

func pipe() (io.Reader, *io.PipeWriter) { return io.Pipe() }

func (t *tap) close() {
	t.fromPod.Close()
	t.fromUser.Close()
	t.parsers.Wait()
}

// data takes one message of a channel.
func (t *tap) data(channel int, p []byte) {
	switch channel {
	case channelStdout, channelStderr:
		t.stream.output(p)
	case channelResize:
		var size struct{ Width, Height int }
		if json.Unmarshal(p, &size) == nil && size.Width > 0 {
			t.stream.resized(size.Width, size.Height)
		}
	case channelError:
		t.mu.Lock()
		defer t.mu.Unlock()
		if len(t.status)+len(p) <= maxStatus {
			t.status = append(t.status, p...)
		}
	}
}

// result reads the final status: exit code and message of a command that failed. A stream that ended without one was cut.
func (t *tap) result() (code, message string, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var status struct {
		Status, Message string
		Details         struct {
			Causes []struct{ Reason, Message string }
		}
	}
	if len(t.status) == 0 {
		return "", "stream ended without a status", t.stream.tty
	}
	if json.Unmarshal(t.status, &status) != nil {
		return "", string(t.status), true // the oldest protocol has plain text
	}
	for _, c := range status.Details.Causes {
		if c.Reason == "ExitCode" {
			code = c.Message
		}
	}
	return code, status.Message, status.Status != "Success"
}

// spdy reads frames; the streams are named when the user's side opens them.
func (t *tap) spdy(r io.Reader, fromUser bool) {
	framer, err := spdy.NewFramer(io.Discard, r)
	if err != nil {
		return
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *spdy.SynStreamFrame:
			t.mu.Lock()
			t.kinds[f.StreamId] = f.Headers.Get("Streamtype")
			t.mu.Unlock()
		case *spdy.DataFrame:
			if channel, ok := t.channelOf(f.StreamId); ok && fromUser == (channel == channelResize || channel == channelStdin) {
				t.data(channel, f.Data)
			}
		}
	}
}

func (t *tap) channelOf(id spdy.StreamId) (int, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	channel, ok := map[string]int{"stdin": channelStdin, "stdout": channelStdout, "stderr": channelStderr, "error": channelError, "resize": channelResize}[t.kinds[id]]
	return channel, ok
}

var errFrame = errors.New("malformed WebSocket frame")
