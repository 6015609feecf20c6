package node

import (
	"encoding/json"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// helloSignature begins what a proxy sends before the client's first SSH byte: this, a JSON object and a zero byte.
const helloSignature = "Teleport-Proxy"

// maxHello bounds the proxy's hello.
const maxHello = 16 << 10

// wire is the transport of one connection: it takes the proxy's hello off, counts, and can be struck by a planted fault.
type wire struct {
	net.Conn
	read, written atomic.Int64

	client atomic.Value // string: the client's address told by the proxy
	early  []byte       // read but not yet handed on
	begun  bool         // the hello was looked for

	mu      sync.Mutex
	fault   wireFault
	until   time.Time     // end of a stall
	release chan struct{} // closed at Close: ends waiting
	once    sync.Once
}

type wireFault int

const (
	wireFine wireFault = iota
	wireHalfOpen
	wireStalled
)

func newWire(conn net.Conn) *wire { return &wire{Conn: conn, release: make(chan struct{})} }

// Read also takes the proxy's hello off the first bytes.
func (w *wire) Read(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		if err := w.takeHello(); err != nil {
			return 0, err
		}
	}
	if len(w.early) > 0 {
		n := copy(p, w.early)
		if w.early = w.early[n:]; len(w.early) == 0 {
			w.early = nil
		}
		w.read.Add(int64(n))
		return n, nil
	}
	for {
		n, err := w.Conn.Read(p)
		w.read.Add(int64(n))
		if !w.pass() {
			return 0, net.ErrClosed
		}
		if err != nil || w.struck() != wireHalfOpen {
			return n, err
		}
		// Half open: what comes in is never seen, but the other end's closing is.
	}
}

// Write discards what it is given while the connection is half open.
func (w *wire) Write(p []byte) (int, error) {
	if !w.pass() {
		return 0, net.ErrClosed
	}
	if w.struck() == wireHalfOpen {
		return len(p), nil
	}
	n, err := w.Conn.Write(p)
	w.written.Add(int64(n))
	return n, err
}

// Close ends also what a fault holds.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.release) })
	return w.Conn.Close()
}

// RemoteAddr is the client's address where the proxy told it.
func (w *wire) RemoteAddr() net.Addr {
	if addr, ok := w.client.Load().(string); ok {
		return clientAddr(addr)
	}
	return w.Conn.RemoteAddr()
}

type clientAddr string

func (clientAddr) Network() string  { return "tcp" }
func (a clientAddr) String() string { return string(a) }

func (w *wire) takeHello() error {
	buf := make([]byte, 512)
	n, err := w.Conn.Read(buf)
	if err != nil {
		return err
	}
	w.early = append([]byte(nil), buf[:n]...)
	if !strings.HasPrefix(string(w.early), helloSignature) {
		return nil
	}
	for {
		if end := strings.IndexByte(string(w.early), 0); end >= 0 {
			w.greet(w.early[len(helloSignature):end])
			w.early = w.early[end+1:]
			return nil
		}
		if len(w.early) > maxHello {
			return net.ErrClosed
		}
		n, err := w.Conn.Read(buf)
		if err != nil {
			return err
		}
		w.early = append(w.early, buf[:n]...)
	}
}

func (w *wire) greet(raw []byte) {
	var hello struct {
		ClientAddr string `json:"clientAddr"`
	}
	if json.Unmarshal(raw, &hello) == nil && hello.ClientAddr != "" {
		w.client.Store(hello.ClientAddr)
	}
}

// strike puts a fault in force.
func (w *wire) strike(fault wireFault, lasting time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.until = fault, time.Now().Add(lasting)
}

func (w *wire) struck() wireFault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == wireStalled && time.Now().After(w.until) {
		w.fault = wireFine
	}
	return w.fault
}

// pass waits while the connection is stalled; false: it was closed meanwhile.
func (w *wire) pass() bool {
	for w.struck() == wireStalled {
		w.mu.Lock()
		wait := time.Until(w.until)
		w.mu.Unlock()
		select {
		case <-w.release:
			return false
		case <-time.After(max(wait, time.Millisecond)):
		}
	}
	return true
}
