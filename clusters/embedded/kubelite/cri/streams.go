package cri

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// drainLimit is how long output may pause, once the process has ended, before a
// pipe that some orphan still holds is given up.
const drainLimit = 500 * time.Millisecond

// attachLimit is how long an attached client may block the container's output
// before it is cut off.
const attachLimit = 10 * time.Second

// drain copies src until its end, or until done is closed and nothing has come
// for drainLimit. A terminal reports EIO at its end, and that may come before the
// process has ended: coreutils' programs close their streams before they exit.
// Closed only then, a terminal does not hang up on one that is just about to go,
// which would be seen as killed by SIGHUP.
func drain(src *os.File, done <-chan struct{}, write func([]byte)) {
	defer func() { <-done; src.Close() }()
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		select {
		case <-done:
			src.SetReadDeadline(time.Now().Add(drainLimit))
		case <-finished:
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			write(buf[:n])
		}
		if err != nil {
			// A terminal that nobody has open any more hangs up when our end of it is closed, and that would end a
			// program that has closed its streams on its way out and not exited yet.
			<-done
			return
		}
		select {
		case <-done: // the client may have been slow: the wait counts from now
			src.SetReadDeadline(time.Now().Add(drainLimit))
		default:
		}
	}
}

// outputs is where a container's output goes: its log and whoever is attached.
type outputs struct {
	mu      sync.Mutex
	clients map[*client]struct{}
	closed  bool
}

// client is one attached reader of stdout and stderr; nil writers are skipped.
type client struct {
	stdout, stderr io.Writer
	queue          chan chunk
	gone           chan struct{} // closed when the client can take no more
}

type chunk struct {
	stderr bool
	data   []byte
}

// attach starts the client's delivery, which ends after the container's output.
func (o *outputs) attach(stdout, stderr io.Writer) *client {
	c := &client{stdout: stdout, stderr: stderr, queue: make(chan chunk, 64), gone: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		close(c.queue)
	} else {
		if o.clients == nil {
			o.clients = map[*client]struct{}{}
		}
		o.clients[c] = struct{}{}
	}
	go c.deliver()
	return c
}

func (c *client) deliver() {
	defer close(c.gone)
	for ch := range c.queue {
		w := c.stdout
		if ch.stderr {
			w = c.stderr
		}
		if w == nil {
			continue
		}
		if _, err := w.Write(ch.data); err != nil {
			return
		}
	}
}

func (o *outputs) detach(c *client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.clients[c]; ok {
		delete(o.clients, c)
		close(c.queue)
	}
}

func (o *outputs) broadcast(stderr bool, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.clients {
		if !c.offer(chunk{stderr, append([]byte(nil), p...)}) {
			delete(o.clients, c)
			close(c.queue)
		}
	}
}

func (c *client) offer(ch chunk) bool {
	select {
	case c.queue <- ch:
		return true
	case <-c.gone:
		return false
	default:
	}
	t := time.NewTimer(attachLimit)
	defer t.Stop()
	select {
	case c.queue <- ch:
		return true
	case <-c.gone:
	case <-t.C:
	}
	return false
}

func (o *outputs) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for c := range o.clients {
		close(c.queue)
	}
	o.clients = nil
}

// containerIO is the standing plumbing of a running container.
type containerIO struct {
	log      *logFile
	out      outputs
	terminal *os.File // nil without a terminal
	drained  sync.WaitGroup

	mu    sync.Mutex
	stdin *os.File // write end, or the terminal; nil: the container has no stdin, or it is closed
}

// pump starts copying; each source ends with the process or its own end.
func (c *containerIO) pump(done <-chan struct{}, stdout, stderr *os.File) {
	for i, src := range []*os.File{stdout, stderr} {
		if src == nil {
			continue
		}
		isErr := i == 1
		w := c.log.stream([]string{"stdout", "stderr"}[i])
		c.drained.Go(func() {
			drain(src, done, func(p []byte) {
				w.Write(p)
				c.out.broadcast(isErr, p)
			})
			w.flush()
		})
	}
}

// finish waits for the last output, then lets everyone go.
func (c *containerIO) finish() {
	c.drained.Wait()
	c.out.close()
	c.closeStdin()
	c.log.Close()
}

func (c *containerIO) closeStdin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin != nil && c.stdin != c.terminal {
		c.stdin.Close()
	}
	c.stdin = nil
}

// feed copies a client's input to the container until either ends; once is
// stdinOnce: the first client to leave takes the container's stdin with it.
func (c *containerIO) feed(in io.Reader, once bool) error {
	c.mu.Lock()
	dst := c.stdin
	c.mu.Unlock()
	if dst == nil {
		return errors.New("the container has no standard input, or it has been closed")
	}
	_, err := io.Copy(dst, in)
	if once {
		c.closeStdin()
	}
	if errors.Is(err, os.ErrClosed) || errors.Is(err, errBrokenPipe) {
		return nil
	}
	return err
}
