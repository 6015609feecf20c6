package images

import (
	"fmt"
	"path"
	"strings"

	"github.com/distribution/reference"
)

// ref is an image name in its normal form, with the parts that patterns match.
type ref struct {
	written string // as in the pod spec
	full    string // docker.io/library/foo:1
	repo    string // docker.io/library/foo
	domain  string // docker.io
	digest  string // sha256:…, if the name has one
}

func parseRef(written string) (ref, error) {
	named, err := reference.ParseNormalizedNamed(written)
	if err != nil {
		return ref{}, fmt.Errorf("image %q: %w", written, err)
	}
	named = reference.TagNameOnly(named)
	r := ref{written: written, full: named.String(), repo: named.Name(), domain: reference.Domain(named)}
	if d, ok := named.(reference.Digested); ok {
		r.digest = d.Digest().String()
	}
	return r, nil
}

// tag returns the name that RepoTags shows; empty for a name by digest alone.
func (r ref) tag() string {
	full, _, _ := strings.Cut(r.full, "@")
	if full == r.repo {
		return ""
	}
	return full
}

// pattern is one left-hand side of the table of sources.
type pattern struct {
	text string // as given
	glob string // set if it has a *
	full string // the normal form otherwise
	any  bool   // no tag was given: any tag or digest
}

func parsePattern(text string) (pattern, error) {
	if strings.Contains(text, "*") {
		if _, err := path.Match(text, ""); err != nil || strings.ContainsAny(text, "?[\\") {
			return pattern{}, fmt.Errorf("image pattern %q: only * is special", text)
		}
		return pattern{text: text, glob: text}, nil
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return pattern{}, fmt.Errorf("image pattern %q: %w", text, err)
	}
	return pattern{text: text, full: named.String(), any: reference.IsNameOnly(named)}, nil
}

// rank says how closely the pattern matches: 0 not at all, then any glob (the
// longer the closer), then a name without tag, then an exact name.
func (p pattern) rank(r ref) int {
	const name, exact = 1 << 20, 1 << 21
	if p.glob == "" {
		switch {
		case p.any && p.full == r.repo:
			return name
		case !p.any && (p.full == r.full || p.full == r.tag()):
			return exact
		}
		return 0
	}
	untagged, _, _ := strings.Cut(r.written, "@")
	if i := strings.LastIndex(untagged, ":"); i > strings.LastIndex(untagged, "/") {
		untagged = untagged[:i]
	}
	for _, s := range []string{r.written, untagged, r.full, r.repo} {
		if globMatch(p.glob, s) {
			return len(p.glob)
		}
	}
	return 0
}

// globMatch matches s against a pattern in which * stands for any characters,
// slashes too.
func globMatch(glob, s string) bool {
	parts := strings.Split(glob, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}
