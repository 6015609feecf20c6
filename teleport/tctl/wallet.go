package tctl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"shakedown.dev/shakedown/teleport/identity"
)

// Wallet keeps the identities of a run's users, in memory and as files of mode 0600 in a private folder, and
// renews them before they end. It is safe for use by many goroutines.
type Wallet struct {
	opts WalletOptions

	mu  sync.RWMutex
	ids map[string]*identity.Identity
}

// WalletOptions say whose identities a Wallet keeps.
type WalletOptions struct {
	Tctl        Tctl
	Folder      string // private: made with mode 0700
	TTL         time.Duration
	KubeCluster string // the identities are good for this Kubernetes cluster too
	Users       []string
	// Rekey, if not nil, changes each new identity's key for a cheaper one (audit.Rekeyer).
	Rekey func(context.Context, *identity.Identity) (*identity.Identity, error)
}

// NewWallet is OpenWallet without rekeying.
func NewWallet(ctx context.Context, t Tctl, folder string, ttl time.Duration, kubeCluster string, users ...string) (*Wallet, error) {
	return OpenWallet(ctx, WalletOptions{Tctl: t, Folder: folder, TTL: ttl, KubeCluster: kubeCluster, Users: users})
}

// OpenWallet signs an identity for each user. On error nothing is left in the folder.
func OpenWallet(ctx context.Context, opts WalletOptions) (*Wallet, error) {
	w := &Wallet{opts: opts, ids: map[string]*identity.Identity{}}
	if err := os.MkdirAll(w.opts.Folder, 0o700); err != nil {
		return nil, err
	}
	for _, user := range w.opts.Users {
		if err := w.sign(ctx, user); err != nil {
			return nil, errors.Join(err, w.Destroy())
		}
	}
	return w, nil
}

// Users are the names, in the order given.
func (w *Wallet) Users() []string { return w.opts.Users }

// Get gives a user's present identity, or nil if there is no such user.
func (w *Wallet) Get(user string) *identity.Identity {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.ids[user]
}

// Path is the user's identity file.
func (w *Wallet) Path(user string) string { return filepath.Join(w.opts.Folder, user+".identity") }

// Keep renews each identity when a third of its life is left, until ctx ends. A renewal that fails is logged and
// tried again after a minute: the identity is good for some time yet.
func (w *Wallet) Keep(ctx context.Context, log *slog.Logger) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := w.opts.TTL
		for _, user := range w.opts.Users {
			wait := w.due(user, time.Now())
			if wait <= 0 {
				wait = w.opts.TTL * 2 / 3
				if err := w.sign(ctx, user); err != nil && ctx.Err() == nil {
					log.Warn("an identity was not renewed", "user", user, "err", err)
					wait = time.Minute
				}
			}
			next = min(next, wait)
		}
		timer.Reset(max(next, time.Second))
	}
}

// due is how long it is until the identity should be renewed.
func (w *Wallet) due(user string, now time.Time) time.Duration {
	return w.Get(user).Expires.Sub(now) - w.opts.TTL/3
}

func (w *Wallet) sign(ctx context.Context, user string) error {
	id, err := w.opts.Tctl.Sign(ctx, user, w.opts.TTL, w.opts.KubeCluster)
	if err != nil {
		return err
	}
	if w.opts.Rekey != nil {
		if id, err = w.opts.Rekey(ctx, id); err != nil {
			return err
		}
	}
	if id.User != user {
		return fmt.Errorf("sign %s: the certificate is of %s", user, id.User)
	}
	if err := id.Save(w.Path(user)); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids[user] = id
	return nil
}

// Destroy deletes the files and the folder. Identities that were handed out stay usable until they end.
func (w *Wallet) Destroy() error {
	var errs []error
	for _, user := range w.opts.Users {
		if err := os.Remove(w.Path(user)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := os.Remove(w.opts.Folder); err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
