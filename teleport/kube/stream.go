package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history"
)

// Channels of a remote command stream, by the byte before each message.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelStatus = 3
	channelResize = 4
)

// Stream is a command that runs in a container. One goroutine may read, others may write.
type Stream struct {
	phases []history.PhaseTime
	conn   *websocket.Conn // nil with SPDY
	local  net.Addr
	remote net.Addr

	write   sync.Mutex
	rest    []byte // of a message that was longer than a Read
	pong    chan string
	pings   atomic.Uint64
	ours    atomic.Bool
	status  atomic.Pointer[metav1.Status]
	readErr error

	spdy *spdyStream // nil with WebSocket
}

// End is how a stream ended, and the evidence.
type End struct {
	Exited bool // Kubernetes said how the command ended
	Status int
	// Message is what Kubernetes said if it ended otherwise than by exiting.
	Message string
	Cut     history.Cut // empty if it exited
	Ours    bool        // we closed it
	Err     error
}

// ErrSilent means that the other side did not answer a ping in time.
var ErrSilent = errors.New("no answer to a ping")

func newStream(conn *websocket.Conn, phases []history.PhaseTime, raw net.Conn) *Stream {
	s := &Stream{phases: phases, conn: conn, pong: make(chan string, 4), local: raw.LocalAddr(), remote: raw.RemoteAddr()}
	conn.SetPongHandler(func(data string) error {
		select {
		case s.pong <- data:
		default: // nobody waits
		}
		return nil
	})
	return s
}

// Phases are the phases of opening with their times.
func (s *Stream) Phases() []history.PhaseTime { return s.phases }

// LocalAddr and RemoteAddr are the ends of the connection to the proxy.
func (s *Stream) LocalAddr() net.Addr  { return s.local }
func (s *Stream) RemoteAddr() net.Addr { return s.remote }

// Read reads the command's output, standard error among it. io.EOF means that no more comes, and End says why.
func (s *Stream) Read(p []byte) (int, error) {
	if s.spdy != nil {
		return s.spdy.out.Read(p)
	}
	for len(s.rest) == 0 {
		if s.readErr != nil {
			return 0, io.EOF
		}
		_, message, err := s.conn.ReadMessage()
		if err != nil {
			s.readErr = err
			continue
		}
		s.take(message)
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *Stream) take(message []byte) {
	if len(message) == 0 {
		return
	}
	switch message[0] {
	case channelStdout, channelStderr:
		s.rest = message[1:]
	case channelStatus:
		var st metav1.Status
		if json.Unmarshal(message[1:], &st) == nil {
			s.status.Store(&st)
		}
	}
}

// Write sends input. It blocks while the other side does not read.
func (s *Stream) Write(p []byte) (int, error) {
	if s.spdy != nil {
		return s.spdy.in.Write(p)
	}
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, maxMessage)
		if err := s.send(channelStdin, p[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return len(p), nil
}

// maxMessage is what goes into one message: it must fit into one frame with its channel's byte, for the API server
// takes the continuation of a message for one of its own, and its first byte for a channel.
const maxMessage = writeBuffer - 1

func (s *Stream) send(channel byte, p []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	return s.conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, p...))
}

// Resize tells the terminal's new size.
func (s *Stream) Resize(cols, rows int) error {
	if s.spdy != nil {
		return errors.ErrUnsupported
	}
	return s.send(channelResize, []byte(`{"Width":`+strconv.Itoa(cols)+`,"Height":`+strconv.Itoa(rows)+`}`))
}

// Ping asks for a sign of life and gives how long it took. Somebody must be reading meanwhile. It is
// errors.ErrUnsupported over SPDY, whose library pings every five seconds on its own.
func (s *Stream) Ping(ctx context.Context) (time.Duration, error) {
	if s.spdy != nil {
		return 0, errors.ErrUnsupported
	}
	start := time.Now()
	word := strconv.FormatUint(s.pings.Add(1), 10)
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = start.Add(10 * time.Second)
	}
	if err := s.conn.WriteControl(websocket.PingMessage, []byte(word), deadline); err != nil {
		return 0, err
	}
	for {
		select {
		case got := <-s.pong:
			if got == word {
				return time.Since(start), nil
			}
		case <-ctx.Done():
			return 0, ErrSilent
		}
	}
}

// Close ends the stream at once.
func (s *Stream) Close() error {
	s.ours.Store(true)
	if s.spdy != nil {
		s.spdy.cancel()
		return nil
	}
	return s.conn.Close()
}

// End tells how the stream ended. Call it after Read returned an error.
func (s *Stream) End() End {
	err := s.readErr
	if s.spdy != nil {
		err = s.spdy.result()
	}
	end := End{Ours: s.ours.Load(), Err: err}
	if st := s.status.Load(); st != nil {
		end.Status, end.Exited = exitOf(st)
		if end.Message = st.Message; !end.Exited {
			end.Cut = history.CutMessage
		}
		return end
	}
	if s.spdy != nil && err == nil {
		end.Exited = true
		return end
	}
	if s.spdy == nil && websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		// Teleport 13 ends a recorded command that succeeded so, without a status; kubectl takes it for success too.
		end.Exited, end.Err = true, nil
		return end
	}
	if code, ok := exitCode(err); ok {
		end.Exited, end.Status, end.Err = true, code, nil
		return end
	}
	end.Cut = cutOf(err)
	return end
}

// exitOf reads the status with which Kubernetes ends a command: Success, or a failure that has the exit status
// as a cause.
func exitOf(st *metav1.Status) (int, bool) {
	if st.Status == metav1.StatusSuccess {
		return 0, true
	}
	if st.Details == nil {
		return 0, false
	}
	for _, cause := range st.Details.Causes {
		if cause.Type == "ExitCode" {
			code, err := strconv.Atoi(cause.Message)
			return code, err == nil
		}
	}
	return 0, false
}

// cutOf names how an error looks from here.
func cutOf(err error) history.Cut {
	var closed *websocket.CloseError
	var netErr net.Error
	switch {
	case errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure:
		return history.CutMessage
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return history.CutReset
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return history.CutConnect
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return history.CutTimeout
	case err == nil, errors.As(err, &closed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return history.CutEOF
	// The SPDY library keeps no error's type.
	case strings.Contains(err.Error(), "connection reset"):
		return history.CutReset
	case strings.Contains(err.Error(), "EOF"), strings.Contains(err.Error(), "closed"):
		return history.CutEOF
	}
	return history.CutProtocol
}

// reason takes the message from a Kubernetes status, or else is the text itself.
func reason(body []byte) string {
	var st metav1.Status
	if json.Unmarshal(body, &st) == nil && st.Message != "" {
		return st.Message
	}
	return strings.Join(strings.Fields(string(body)), " ")
}
