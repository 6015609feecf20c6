package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sys/unix"
)

// Config is what a Store works with.
type Config struct {
	// Dir is the cache, by custom $XDG_CACHE_HOME/shakedown/images. It is shared
	// by all runs of one user and must not lie on an overlay.
	Dir string
	// UserNamespace says that layers will be mounted with the option userxattr.
	UserNamespace bool
	// HostRoot is where, in the runtime's mount namespace, this machine's root can
	// be read as an overlay's lower directory; see MountHostRoot. Empty means "/",
	// which only a runtime that mounts directory by directory can use.
	HostRoot string
	// Transport reaches registries; nil is the default one.
	Transport http.RoundTripper
	// Keychain has credentials for registries; nil is that of docker and podman.
	Keychain authn.Keychain
	// Builtins are the images that need no source.
	Builtins []Builtin
	// Log is for what is no error; nil discards.
	Log *slog.Logger
}

// Store resolves, pulls and unpacks images. It implements Puller. Several stores
// may share one cache, in one process or many.
type Store struct {
	cfg      Config
	cache    *cache
	table    table
	builtins map[string]Builtin // by repository

	mu    sync.Mutex
	local map[string]record // by full name: images from sources of this machine
}

var _ Puller = (*Store)(nil)

// NewStore opens the cache and makes it if it is not there.
func NewStore(cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, errors.New("image cache: no directory given")
	}
	if cfg.Keychain == nil {
		cfg.Keychain = authn.DefaultKeychain
	}
	if cfg.Transport == nil {
		cfg.Transport = remote.DefaultTransport
	}
	if cfg.HostRoot == "" {
		cfg.HostRoot = "/"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c, err := openCache(cfg.Dir, cfg.UserNamespace)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, cache: c, builtins: map[string]Builtin{}, local: map[string]record{}}
	for _, b := range cfg.Builtins {
		r, err := parseRef(b.Name)
		if err != nil {
			return nil, fmt.Errorf("built-in: %w", err)
		}
		s.builtins[r.repo] = b
	}
	return s, nil
}

// Close lets go of the layers, so that another run may prune them.
func (s *Store) Close() error {
	s.cache.close()
	return nil
}

// Add says where images come from whose name matches: an exact name, a name
// without tag (any tag), or one with *. A later row replaces its like.
func (s *Store) Add(name, source string) error {
	if err := s.table.add(name, source); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.local) // may mean something else now
	return nil
}

// Prune removes layers that no store holds and none has used for age, and
// returns the bytes freed.
func (s *Store) Prune(age time.Duration) (uint64, error) { return s.cache.prune(age) }

// Usage measures the cache.
func (s *Store) Usage(context.Context) (Usage, error) { return s.cache.usage() }

// Pull makes the image present and returns its ID. Its error says which sources
// were tried and how each of them ended.
func (s *Store) Pull(ctx context.Context, name string, auth Auth) (string, error) {
	r, err := parseRef(name)
	if err != nil {
		return "", err
	}
	from, matched := s.source(r)
	var rec record
	if from.local() {
		rec, err = s.atHand(ctx, r, from)
	} else {
		rec, err = s.fetch(ctx, r, from, auth)
	}
	if err == nil {
		return rec.ID, nil
	}
	if matched {
		return "", fmt.Errorf("image %q: source %s: %w", name, from, err)
	}
	return "", fmt.Errorf("image %q: no --image source matches; registry %s: %w", name, r.domain, err)
}

// source returns where the name's image comes from, and whether that was said
// rather than guessed from the name.
func (s *Store) source(r ref) (source, bool) {
	if from, ok := s.table.find(r); ok {
		return from, true
	}
	if b, ok := s.builtins[r.repo]; ok {
		return source{kindBuiltin, b.Name}, true
	}
	return source{kind: kindRegistry}, false
}

// atHand returns the image of a source on this machine, read once and again when
// the source has changed. Of several callers one reads and the others wait.
func (s *Store) atHand(ctx context.Context, r ref, from source) (record, error) {
	lock, err := lockFile(ctx, s.cache.lockPath(hexKey(from.String()), "source"), unix.LOCK_EX)
	if err != nil {
		return record{}, err
	}
	defer lock.unlock()
	s.mu.Lock()
	rec, ok := s.local[r.full]
	s.mu.Unlock()
	if ok && rec.Stamp == s.stamp(from) {
		return rec, nil
	}
	if rec, err = s.fetch(ctx, r, from, Auth{}); err != nil {
		return rec, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.local[r.full] = rec
	return rec, nil
}

func (s *Store) fetch(ctx context.Context, r ref, from source, auth Auth) (record, error) {
	start := time.Now()
	stamp := s.stamp(from) // before the reading, or a change meanwhile would pass unseen
	rec, err := s.fetchFrom(ctx, r, from, auth)
	if err != nil {
		return rec, err
	}
	rec.Stamp = stamp
	s.cfg.Log.Debug("image ready", "image", r.full, "source", from.String(), "id", rec.ID, "took", time.Since(start))
	if !from.local() {
		return rec, s.saveName(rec)
	}
	return rec, nil
}

func (s *Store) fetchFrom(ctx context.Context, r ref, from source, auth Auth) (record, error) {
	switch from.kind {
	case kindRegistry:
		return s.fromRegistry(ctx, r, from.arg, auth)
	case kindOCI:
		return s.fromLayout(ctx, r, from.arg)
	case kindArchive:
		return s.fromArchive(ctx, r, from.arg)
	case kindHost:
		return s.fromHost(ctx, r, from.arg)
	case kindBuiltin:
		return s.fromBuiltin(ctx, r, from.arg)
	}
	return record{}, fmt.Errorf("unknown kind of source %q", from.kind)
}

// find returns the record of a present image. One from a source of this machine
// is always present: it is unpacked here if need be.
func (s *Store) find(ctx context.Context, name string) (record, error) {
	if strings.HasPrefix(name, "sha256:") {
		return s.findID(name)
	}
	r, err := parseRef(name)
	if err != nil {
		return record{}, err
	}
	from, _ := s.source(r)
	if !from.local() {
		return s.loadName(r.full, s.stamp(from))
	}
	rec, err := s.atHand(ctx, r, from)
	if err != nil {
		return rec, fmt.Errorf("image %q: source %s: %w", name, from, err)
	}
	return rec, nil
}

func (s *Store) findID(id string) (record, error) {
	recs, err := s.records()
	if err != nil {
		return record{}, err
	}
	for _, rec := range recs {
		if rec.ID == id {
			return rec, nil
		}
	}
	return record{}, ErrNotFound
}

// Status returns the image, or ErrNotFound.
func (s *Store) Status(ctx context.Context, name string) (Info, error) {
	rec, err := s.find(ctx, name)
	if err != nil {
		return Info{}, err
	}
	all, err := s.List(ctx)
	if err != nil {
		return Info{}, err
	}
	for _, info := range all {
		if info.ID == rec.ID {
			return info, nil
		}
	}
	return Info{}, ErrNotFound
}

// Rootfs returns a present image's directories. They stay until Close.
func (s *Store) Rootfs(ctx context.Context, name string) (Image, error) {
	rec, err := s.find(ctx, name)
	if err != nil {
		return Image{}, err
	}
	img := rec.Image
	img.ID, img.Layers = rec.ID, nil
	for _, layer := range rec.Layers {
		dir, opaque, err := s.layerDir(ctx, layer)
		if err != nil {
			return Image{}, fmt.Errorf("image %q: %w", name, err)
		}
		img.Layers = append(img.Layers, dir)
		if opaque {
			break
		}
	}
	if len(img.Layers) == 0 {
		return Image{}, fmt.Errorf("image %q: has no layers", name)
	}
	return img, nil
}

func (s *Store) layerDir(ctx context.Context, l layerRef) (dir string, opaque bool, err error) {
	if l.Dir != "" {
		return l.Dir, false, nil
	}
	dir, err = s.cache.hold(ctx, l.Key)
	if errors.Is(err, fs.ErrNotExist) { // pruned a moment ago
		return "", false, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err != nil {
		return "", false, err
	}
	stat, err := s.cache.stat(l.Key)
	return dir, stat.Opaque, err
}
