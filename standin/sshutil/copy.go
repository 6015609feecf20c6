package sshutil

import (
	"errors"
	"io"
	"sync"
)

// Sizes of the copy buffers: an idle direction of a session holds the small one only.
const (
	smallBuffer = 1 << 10
	largeBuffer = 32 << 10
)

// Buffers lends large copy buffers to directions that carry much at the moment.
type Buffers struct{ pool sync.Pool }

// NewBuffers gives an empty pool.
func NewBuffers() *Buffers {
	return &Buffers{pool: sync.Pool{New: func() any { b := make([]byte, largeBuffer); return &b }}}
}

// Copy copies until EOF like io.Copy, with a small buffer while little is flowing and a large one while much is.
func (p *Buffers) Copy(dst io.Writer, src io.Reader) (int64, error) {
	var total int64
	small := make([]byte, smallBuffer)
	for {
		n, err := copyOnce(dst, src, small)
		total += n
		if err == nil && n == smallBuffer {
			n, err = p.copyBulk(dst, src)
			total += n
		}
		if err != nil {
			return total, ignoreEOF(err)
		}
	}
}

// copyBulk copies with a borrowed buffer until a read no longer fills a small one.
func (p *Buffers) copyBulk(dst io.Writer, src io.Reader) (int64, error) {
	large := p.pool.Get().(*[]byte)
	defer p.pool.Put(large)
	var total int64
	for {
		n, err := copyOnce(dst, src, *large)
		total += n
		if err != nil || n < smallBuffer {
			return total, err
		}
	}
}

func copyOnce(dst io.Writer, src io.Reader, buf []byte) (int64, error) {
	n, err := src.Read(buf)
	if n > 0 {
		if _, werr := dst.Write(buf[:n]); werr != nil {
			return int64(n), werr
		}
	}
	return int64(n), err
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// CloseWriter is a stream whose sending direction can be ended alone.
type CloseWriter interface{ CloseWrite() error }

// Join copies both ways between two streams until both directions are over, passing on half-closes, and closes both.
func (p *Buffers) Join(a, b io.ReadWriteCloser) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.oneWay(a, b)
	}()
	p.oneWay(b, a)
	<-done
	a.Close()
	b.Close()
}

// oneWay ends the destination's direction gently after EOF and closes both streams after an error, so that the other direction ends too.
func (p *Buffers) oneWay(dst, src io.ReadWriteCloser) {
	_, err := p.Copy(dst, src)
	if cw, ok := dst.(CloseWriter); ok && err == nil {
		if cw.CloseWrite() == nil {
			return
		}
	}
	dst.Close()
	src.Close()
}
