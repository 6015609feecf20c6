// Package state stores what the auth knows: in a journal on local disk, each
// auth its own, or in etcd, shared by all of them.
package state

import (
	"context"
	"errors"
	"time"
)

// ErrExists and ErrNotFound are what Create and Get fail with.
var (
	ErrExists   = errors.New("already exists")
	ErrNotFound = errors.New("not found")
)

// Item is one key with its value. Expires zero: never.
type Item struct {
	Key     string    `json:"k"`
	Value   []byte    `json:"v,omitempty"`
	Expires time.Time `json:"e,omitzero"`
}

// Expired says whether the item's time is over.
func (i Item) Expired(now time.Time) bool { return !i.Expires.IsZero() && !now.Before(i.Expires) }

// Store keeps items. Expired items are as good as gone.
type Store interface {
	Get(ctx context.Context, key string) (Item, error)
	// List returns the items under prefix, by key.
	List(ctx context.Context, prefix string) ([]Item, error)
	// Range returns the items with from <= key < to, by key.
	Range(ctx context.Context, from, to string) ([]Item, error)
	Put(ctx context.Context, item Item) error
	Create(ctx context.Context, item Item) error
	// Delete fails with ErrNotFound when there was nothing.
	Delete(ctx context.Context, key string) error
	Close() error
}
