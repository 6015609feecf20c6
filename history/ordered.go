package history

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// filler reads one JSON value into v. It is only a fast path: what it does not know makes the cutter not ok.
type filler func(c *cutter, v reflect.Value)

// fillerOf makes the filler of a type as [json.Encoder] writes it: without spaces, a struct's keys in the order of
// its fields. Types that decode themselves and maps take the long way.
func fillerOf(t reflect.Type) filler {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return func(c *cutter, v reflect.Value) { v.Set(reflect.ValueOf(c.quotedTime())) }
	case decodesItself(t):
		return notOK
	}
	switch t.Kind() {
	case reflect.String:
		return func(c *cutter, v reflect.Value) { c.skip(`"`); v.SetString(c.name()) }
	case reflect.Bool:
		return func(c *cutter, v reflect.Value) { v.SetBool(c.bool()) }
	case reflect.Int, reflect.Int64:
		return func(c *cutter, v reflect.Value) { v.SetInt(c.signed()) }
	case reflect.Uint32, reflect.Uint64:
		return fillUint
	case reflect.Float64:
		return func(c *cutter, v reflect.Value) { v.SetFloat(c.float()) }
	case reflect.Pointer:
		return pointerFiller(t.Elem())
	case reflect.Slice:
		return sliceFiller(t.Elem())
	case reflect.Array:
		return arrayFiller(t)
	case reflect.Struct:
		return structFiller(t)
	}
	return notOK
}

func notOK(c *cutter, _ reflect.Value) { c.ok = false }

// decodesItself says whether encoding/json would ask the type to decode itself.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, method := range []string{"UnmarshalJSON", "UnmarshalJSONFrom", "UnmarshalText"} {
		if _, is := p.MethodByName(method); is {
			return true
		}
	}
	return false
}

func fillUint(c *cutter, v reflect.Value) {
	n := c.number()
	if v.OverflowUint(n) {
		c.ok = false
		return
	}
	v.SetUint(n)
}

func pointerFiller(t reflect.Type) filler {
	fill := fillerOf(t)
	return func(c *cutter, v reflect.Value) {
		v.Set(reflect.New(t))
		fill(c, v.Elem())
	}
}

func sliceFiller(t reflect.Type) filler {
	fill := fillerOf(t)
	return func(c *cutter, v reflect.Value) {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		c.list(func(i int) {
			v.Grow(1)
			v.SetLen(i + 1)
			v.Index(i).SetZero()
			fill(c, v.Index(i))
		})
	}
}

func arrayFiller(t reflect.Type) filler {
	fill := fillerOf(t.Elem())
	return func(c *cutter, v reflect.Value) {
		n := 0
		c.list(func(i int) {
			if n++; n > t.Len() {
				c.ok = false
				return
			}
			fill(c, v.Index(i))
		})
		c.ok = c.ok && n == t.Len()
	}
}

// structFiller looks at the keys in their order: each is next, or was left out.
func structFiller(t reflect.Type) filler {
	type field struct {
		key  string // with quotes and colon
		fill filler
	}
	fields := make([]field, t.NumField())
	for i := range fields {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" || t.Field(i).Anonymous {
			return notOK
		}
		fields[i] = field{`"` + name + `":`, fillerOf(t.Field(i).Type)}
	}
	return func(c *cutter, v reflect.Value) {
		c.skip("{")
		comma := false
		for i := 0; i < len(fields) && c.ok; i++ {
			if c.key(fields[i].key, comma) {
				fields[i].fill(c, v.Field(i))
				comma = true
			}
		}
		c.skip("}")
	}
}

// key eats a key if it is next, with the comma before it.
func (c *cutter) key(key string, comma bool) bool {
	if !comma {
		return c.maybe(key)
	}
	if len(c.rest) <= len(key) || c.rest[0] != ',' || string(c.rest[1:1+len(key)]) != key {
		return false
	}
	c.rest = c.rest[1+len(key):]
	return true
}

// list eats an array; each is called where an element begins.
func (c *cutter) list(each func(i int)) {
	c.skip("[")
	if c.maybe("]") {
		return
	}
	for i := 0; c.ok; i++ {
		each(i)
		if c.maybe("]") {
			return
		}
		c.skip(",")
	}
}

func (c *cutter) bool() bool {
	if c.maybe("true") {
		return true
	}
	c.skip("false")
	return false
}

func (c *cutter) signed() int64 {
	if c.maybe("-") {
		return -int64(c.number())
	}
	return int64(c.number())
}

func (c *cutter) float() float64 {
	n := 0
	for n < len(c.rest) && strings.IndexByte("+-.0123456789Ee", c.rest[n]) >= 0 {
		n++
	}
	text := c.rest[:n]
	c.rest = c.rest[n:]
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !jsontext.Value(text).IsValid() {
		c.ok = false
	}
	return f
}

// quotedTime takes what [time.Time.MarshalJSON] writes; what reads the same but is written otherwise takes the long way.
func (c *cutter) quotedTime() time.Time {
	c.skip(`"`)
	text := c.text()
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil || t.Format(time.RFC3339Nano) != string(text) {
		c.ok = false
	}
	return t
}

// names keeps strings that came lately, so that the same few names are not made anew for each event.
type names [256]string

func (n *names) of(b []byte) string {
	h := uint32(len(b))
	for _, c := range b {
		h = h*31 + uint32(c)
	}
	kept := &n[h%uint32(len(n))]
	if string(b) != *kept {
		*kept = string(b)
	}
	return *kept
}

// name is text as a string.
func (c *cutter) name() string { return c.names.of(c.text()) }
