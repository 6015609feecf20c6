package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// cache is the directory of unpacked layers:
//
//	layers/FORM/KEY/root     the layer's files
//	layers/FORM/KEY/layer.json
//	layers/FORM/KEY.partial  being unpacked, or left by a process that died
//	locks/FORM-KEY.fill      held while unpacking or removing
//	locks/FORM-KEY.use       shared while in use, exclusive while removing
//	names/…json              what a registry's names meant when last pulled
//
// FORM is the overlay's xattr namespace, since layers of the two differ.
type cache struct {
	dir  string
	form string

	mu   sync.Mutex
	held map[string]*fileLock // by key: layers this store has handed out
}

// layerStat is what unpacking a layer took.
type layerStat struct {
	Bytes  uint64 `json:"bytes"`
	Inodes uint64 `json:"inodes"`
	// Squashed counts entries whose owner could not be set: the xattr
	// user.containers.override_stat says who it was.
	Squashed uint64 `json:"squashed,omitempty"`
	// Skipped counts devices that could not be made.
	Skipped uint64 `json:"skipped,omitempty"`
	// Opaque layers hide all below them. Overlayfs does not look for that mark on
	// a layer's top directory, so the layers below are left out instead.
	Opaque bool `json:"opaque,omitempty"`
}

func openCache(dir string, userNamespace bool) (*cache, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	c := &cache{dir: abs, form: "trusted", held: map[string]*fileLock{}}
	if userNamespace {
		c.form = "user"
	}
	// Private images are nobody else's to read.
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("image cache: %w", err)
	}
	for _, sub := range []string{filepath.Join("layers", c.form), "locks", "names", "tmp"} {
		if err := os.MkdirAll(filepath.Join(abs, sub), 0o755); err != nil {
			return nil, fmt.Errorf("image cache: %w", err)
		}
	}
	return c, nil
}

func (c *cache) layerDir(key string) string { return filepath.Join(c.dir, "layers", c.form, key) }
func (c *cache) root(key string) string     { return filepath.Join(c.layerDir(key), "root") }
func (c *cache) lockPath(key, what string) string {
	return filepath.Join(c.dir, "locks", c.form+"-"+key+"."+what)
}

func (c *cache) present(key string) bool {
	_, err := os.Stat(c.layerDir(key))
	return err == nil
}

// hold returns the layer's root and keeps it from being pruned until close.
func (c *cache) hold(ctx context.Context, key string) (string, error) {
	c.mu.Lock()
	_, ok := c.held[key]
	c.mu.Unlock()
	if !ok {
		lock, err := lockFile(ctx, c.lockPath(key, "use"), unix.LOCK_SH)
		if err != nil {
			return "", err
		}
		if !c.present(key) {
			lock.unlock()
			return "", fmt.Errorf("layer %s: %w", key, fs.ErrNotExist)
		}
		c.mu.Lock()
		if _, twice := c.held[key]; twice {
			lock.unlock()
		} else {
			c.held[key] = lock
		}
		c.mu.Unlock()
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(c.layerDir(key), "layer.json"), now, now) // when last used, for prune
	return c.root(key), nil
}

// ensure returns the held root of the layer, filled by fill if it is not there.
// Of several processes one fills and the others wait for it.
func (c *cache) ensure(ctx context.Context, key string, fill func(root string) (layerStat, error)) (string, error) {
	for {
		root, err := c.hold(ctx, key)
		if !errors.Is(err, fs.ErrNotExist) {
			return root, err
		}
		if err := c.fill(ctx, key, fill); err != nil {
			return "", err
		}
	}
}

func (c *cache) fill(ctx context.Context, key string, fill func(root string) (layerStat, error)) (err error) {
	lock, err := lockFile(ctx, c.lockPath(key, "fill"), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.unlock()
	if c.present(key) {
		return nil
	}
	partial := c.layerDir(key) + ".partial"
	if err := removeTree(partial); err != nil { // of a process that died: the lock is ours
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(c.explain(err), removeTree(partial))
		}
	}()
	root := filepath.Join(partial, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	stat, err := fill(root)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(partial, "layer.json"), stat); err != nil {
		return err
	}
	return os.Rename(partial, c.layerDir(key))
}

// explain adds to an error of a full disk how much room there is.
func (c *cache) explain(err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	var st unix.Statfs_t
	if unix.Statfs(c.dir, &st) != nil {
		return err
	}
	mib := func(blocks uint64) uint64 { return blocks * uint64(st.Bsize) >> 20 }
	return fmt.Errorf("%w (image cache %s: %d MiB and %d inodes free of %d MiB and %d)", err, c.dir, mib(st.Bavail), st.Ffree, mib(st.Blocks), st.Files)
}

func (c *cache) stat(key string) (layerStat, error) {
	var s layerStat
	err := readJSON(filepath.Join(c.layerDir(key), "layer.json"), &s)
	return s, err
}

// keys lists the layers that are complete.
func (c *cache) keys() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(c.dir, "layers", c.form))
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".partial") {
			keys = append(keys, e.Name())
		}
	}
	return keys, nil
}

func (c *cache) usage() (Usage, error) {
	u := Usage{Dir: c.dir}
	keys, err := c.keys()
	if err != nil {
		return u, err
	}
	for _, key := range keys {
		s, err := c.stat(key)
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned since
		}
		if err != nil {
			return u, err
		}
		u.Bytes += s.Bytes
		u.Inodes += s.Inodes
	}
	return u, nil
}

// prune removes the layers that nobody holds and nobody used for age, and what
// interrupted unpacking left.
func (c *cache) prune(age time.Duration) (freed uint64, err error) {
	entries, err := os.ReadDir(filepath.Join(c.dir, "layers", c.form))
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, e := range entries {
		n, err := c.pruneLayer(e.Name(), age)
		freed += n
		errs = append(errs, err)
	}
	return freed, errors.Join(errs...)
}

func (c *cache) pruneLayer(name string, age time.Duration) (uint64, error) {
	key, partial := strings.CutSuffix(name, ".partial")
	for _, what := range []string{"fill", "use"} {
		lock, err := tryLockFile(c.lockPath(key, what))
		if lock == nil || err != nil {
			return 0, err
		}
		defer lock.unlock()
	}
	dir := c.layerDir(key)
	if partial {
		return 0, removeTree(dir + ".partial")
	}
	used, err := os.Stat(filepath.Join(dir, "layer.json"))
	if err == nil && time.Since(used.ModTime()) < age {
		return 0, nil
	}
	s, _ := c.stat(key)
	// Out of sight first: half a layer must never be believed.
	if err := os.Rename(dir, dir+".partial"); err != nil {
		return 0, err
	}
	return s.Bytes, removeTree(dir + ".partial")
}

// close lets go of the layers that were handed out.
func (c *cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, lock := range c.held {
		lock.unlock()
		delete(c.held, key)
	}
}

// temp makes a directory that remove takes away again.
func (c *cache) temp() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(filepath.Join(c.dir, "tmp"), "")
	return dir, func() { _ = removeTree(dir) }, err
}

// removeTree removes a tree even where a directory in it forbids its owner to
// write.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

func writeJSON(file string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), file)
}

func readJSON(file string, v any) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, 64<<20)).Decode(v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// hexKey makes a safe file name of any strings.
func hexKey(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}
