package history

import (
	"bytes"
	"time"
)

// cutHead splits a line as lines.add writes it into the event's head and the
// JSON of its payload. It is only a fast path: anything unusual is not ok.
func cutHead(line []byte, n *names) (Event, []byte, bool) {
	c := cutter{rest: line, ok: true, names: n}
	var e Event
	c.skip(`{"seq":`)
	e.Seq = c.number()
	if c.maybe(`,"dueNs":`) {
		e.Due = time.Duration(c.number())
	}
	c.skip(`,"atNs":`)
	e.At = time.Duration(c.number())
	c.skip(`,"wall":"`)
	e.Wall = c.time()
	c.skip(`,"kind":"`)
	e.Kind = knownKind(c.text())
	if c.maybe(`,"subject":"`) {
		e.Subject = c.name()
	}
	if c.maybe(`,"outcome":"`) {
		e.Outcome = Outcome(c.name())
	}
	c.skip(`,"data":`)
	if !c.ok || e.Kind == "" || !bytes.HasSuffix(c.rest, []byte{'}'}) {
		return Event{}, nil, false
	}
	return e, c.rest[:len(c.rest)-1], true
}

func knownKind(name []byte) Kind {
	for i := range payloads {
		if string(name) == string(payloads[i].kind) {
			return payloads[i].kind
		}
	}
	return ""
}

// cutter eats a line from the left; once not ok it stays so.
type cutter struct {
	rest  []byte
	ok    bool
	names *names
}

func (c *cutter) skip(s string) {
	if !c.maybe(s) {
		c.ok = false
	}
}

func (c *cutter) maybe(s string) bool {
	if len(c.rest) < len(s) || string(c.rest[:len(s)]) != s {
		return false
	}
	c.rest = c.rest[len(s):]
	return true
}

// number reads up to 18 digits; longer or negative ones take the long way.
func (c *cutter) number() uint64 {
	var n uint64
	i := 0
	for ; i < len(c.rest) && c.rest[i] >= '0' && c.rest[i] <= '9'; i++ {
		n = n*10 + uint64(c.rest[i]-'0')
	}
	if i == 0 || i > 18 || (c.rest[0] == '0' && i > 1) {
		c.ok = false
	}
	c.rest = c.rest[i:]
	return n
}

// text reads up to the closing quote; escapes and what is not ASCII take the long way.
func (c *cutter) text() []byte {
	for i, b := range c.rest {
		switch {
		case b == '"':
			s := c.rest[:i]
			c.rest = c.rest[i+1:]
			return s
		case b == '\\' || b < 0x20 || b >= 0x7f:
			c.ok = false
			return nil
		}
	}
	c.ok = false
	return nil
}

func (c *cutter) time() time.Time {
	var t time.Time
	if err := t.UnmarshalText(c.text()); err != nil {
		c.ok = false
	}
	return t
}
