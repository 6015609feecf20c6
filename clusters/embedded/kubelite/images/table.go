package images

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// sourceKind is the word before the colon of a source.
type sourceKind string

const (
	kindRegistry sourceKind = "registry" // registry, or registry:OTHER-NAME
	kindOCI      sourceKind = "oci"      // oci:DIR, an OCI image layout
	kindArchive  sourceKind = "archive"  // archive:FILE, docker save or an OCI layout in a tar
	kindHost     sourceKind = "host"     // host:DIR, programs over this machine's root
	kindBuiltin  sourceKind = "builtin"  // builtin:NAME
)

// source says where an image comes from.
type source struct {
	kind sourceKind
	arg  string
}

func (s source) String() string {
	if s.arg == "" {
		return string(s.kind)
	}
	return string(s.kind) + ":" + s.arg
}

// local tells whether the image is at hand without being pulled.
func (s source) local() bool { return s.kind != kindRegistry }

const sourceForms = "registry, registry:NAME, oci:DIR, archive:FILE, host:DIR or builtin:NAME"

func parseSource(text string) (source, error) {
	kind, arg, _ := strings.Cut(text, ":")
	s := source{kind: sourceKind(kind), arg: arg}
	switch s.kind {
	case kindRegistry, kindBuiltin:
	case kindOCI, kindArchive, kindHost:
		if arg == "" {
			break
		}
		abs, err := filepath.Abs(arg)
		if err != nil {
			return source{}, fmt.Errorf("image source %q: %w", text, err)
		}
		s.arg = abs
	default:
		return source{}, fmt.Errorf("image source %q: want %s", text, sourceForms)
	}
	if arg == "" && s.kind != kindRegistry {
		return source{}, fmt.Errorf("image source %q: nothing after the colon; want %s", text, sourceForms)
	}
	return s, nil
}

// table maps name patterns to sources. The closest pattern wins, of two alike
// the one added last.
type table struct {
	mu   sync.RWMutex
	rows []row
}

type row struct {
	pattern pattern
	source  source
}

func (t *table) add(name, from string) error {
	p, err := parsePattern(name)
	if err != nil {
		return err
	}
	s, err := parseSource(from)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return r.pattern == p })
	t.rows = append(t.rows, row{p, s})
	return nil
}

func (t *table) find(r ref) (source, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var best source
	rank := 0
	for _, row := range t.rows {
		if n := row.pattern.rank(r); n > 0 && n >= rank {
			best, rank = row.source, n
		}
	}
	return best, rank > 0
}
