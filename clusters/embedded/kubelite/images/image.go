package images

import (
	"context"
	"errors"
)

// ErrNotFound is reported for an image that is not present and was not asked to
// be pulled.
var ErrNotFound = errors.New("image not present")

// Image is an unpacked image, ready to be mounted.
type Image struct {
	// ID is the digest of the image's configuration, "sha256:…".
	ID string
	// Layers are the read-only lower directories, topmost first.
	Layers []string

	Env, Entrypoint, Cmd         []string
	WorkingDir, User, StopSignal string
}

// Info describes an image as the kubelet lists it.
type Info struct {
	ID          string
	RepoTags    []string
	RepoDigests []string
	Size        uint64 // bytes on disk, unpacked
	User        string // as the image names it: "uid", "name", either with ":group"
}

// Usage is what the unpacked images take on disk.
type Usage struct {
	Dir    string // the cache
	Bytes  uint64
	Inodes uint64
}

// Auth is a registry credential that came with one pull. The zero value means
// none: the keychain is asked.
type Auth struct {
	Username, Password, Auth, IdentityToken, RegistryToken string
}

// Puller finds, fetches and describes images. Names are as in a pod spec, or an
// image ID. It is safe for concurrent use.
type Puller interface {
	// List returns the images present.
	List(ctx context.Context) ([]Info, error)
	// Status returns the image, or ErrNotFound.
	Status(ctx context.Context, name string) (Info, error)
	// Pull makes the image present and returns its ID.
	Pull(ctx context.Context, name string, auth Auth) (string, error)
	// Remove forgets the image; one that is not present is no error.
	Remove(ctx context.Context, name string) error
	// Usage measures the cache.
	Usage(ctx context.Context) (Usage, error)
	// Rootfs returns a present image's directories, or ErrNotFound.
	Rootfs(ctx context.Context, name string) (Image, error)
}
