package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"
)

// parallelLayers bounds what one pull unpacks at once; gzip keeps a CPU busy.
const parallelLayers = 3

func platform() v1.Platform {
	return v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
}

// fromRegistry pulls from the registry that the name says, or the other name if
// given. Registries on this machine are spoken to in plain HTTP.
func (s *Store) fromRegistry(ctx context.Context, r ref, other string, auth Auth) (record, error) {
	at, err := name.ParseReference(r.full)
	if other != "" {
		at, err = name.ParseReference(other)
	}
	if err != nil {
		return record{}, err
	}
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(s.cfg.Transport), remote.WithPlatform(platform()), s.authOption(auth),
		remote.WithRetryBackoff(remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Jitter: 0.1, Steps: 3}),
		remote.WithUserAgent("shakedown"),
	}
	desc, err := remote.Get(at, options...)
	if err != nil {
		return record{}, err
	}
	img, err := desc.Image()
	if err != nil {
		return record{}, err
	}
	return s.unpack(ctx, r, img, desc.Digest.String())
}

func (s *Store) authOption(auth Auth) remote.Option {
	if auth == (Auth{}) {
		return remote.WithAuthFromKeychain(s.cfg.Keychain)
	}
	return remote.WithAuth(authn.FromConfig(authn.AuthConfig{
		Username: auth.Username, Password: auth.Password, Auth: auth.Auth,
		IdentityToken: auth.IdentityToken, RegistryToken: auth.RegistryToken,
	}))
}

// unpack makes every layer of the image present. Digest is that of the manifest
// or index which the name stands for; empty if nobody has computed it.
func (s *Store) unpack(ctx context.Context, r ref, img v1.Image, digest string) (record, error) {
	id, err := img.ConfigName()
	if err != nil {
		return record{}, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return record{}, err
	}
	if config.Architecture != "" && config.Architecture != runtime.GOARCH {
		s.cfg.Log.Warn("image is for another kind of machine", "image", r.full, "architecture", config.Architecture, "machine", runtime.GOARCH)
	}
	layers, err := img.Layers()
	if err != nil {
		return record{}, err
	}
	diffs := config.RootFS.DiffIDs
	if len(layers) != len(diffs) {
		return record{}, fmt.Errorf("manifest has %d layers, configuration %d", len(layers), len(diffs))
	}
	if err := s.unpackLayers(ctx, layers, diffs); err != nil {
		return record{}, err
	}
	c := config.Config
	rec := record{Name: r.full, ID: id.String(), Tag: r.tag(), Image: Image{
		Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User, StopSignal: c.StopSignal,
	}}
	if digest != "" {
		rec.Digest = r.repo + "@" + digest
	}
	for i := len(diffs) - 1; i >= 0; i-- {
		rec.Layers = append(rec.Layers, layerRef{Key: diffs[i].Hex})
		stat, err := s.cache.stat(diffs[i].Hex)
		if err != nil {
			return record{}, err
		}
		rec.Size += stat.Bytes
	}
	return rec, nil
}

func (s *Store) unpackLayers(ctx context.Context, layers []v1.Layer, diffs []v1.Hash) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLayers)
	for i, layer := range layers {
		group.Go(func() error { return s.unpackLayer(ctx, layer, diffs[i]) })
	}
	return group.Wait()
}

func (s *Store) unpackLayer(ctx context.Context, layer v1.Layer, diff v1.Hash) error {
	if diff.Algorithm != "sha256" || len(diff.Hex) != 2*sha256.Size {
		return fmt.Errorf("layer %s: want a sha256 digest", diff)
	}
	_, err := s.cache.ensure(ctx, diff.Hex, func(root string) (layerStat, error) {
		stream, err := layer.Uncompressed()
		if err != nil {
			return layerStat{}, err
		}
		stat, err := untarVerified(ctx, ctxReader{ctx, stream}, root, s.cache.form, diff)
		return stat, errors.Join(err, stream.Close())
	})
	if err != nil {
		return fmt.Errorf("layer %s: %w", diff, err)
	}
	return nil
}

// untarVerified unpacks a layer and reports one whose contents are not those of
// its diff ID.
func untarVerified(ctx context.Context, r io.Reader, root, form string, diff v1.Hash) (layerStat, error) {
	sum := sha256.New()
	tee := io.TeeReader(r, sum)
	stat, err := untar(ctx, tee, root, form)
	if err != nil {
		return stat, err
	}
	if _, err := io.Copy(io.Discard, tee); err != nil { // padding after the archive's end counts
		return stat, fmt.Errorf("read layer: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != diff.Hex {
		return stat, fmt.Errorf("contents have digest sha256:%s", got)
	}
	return stat, nil
}

// ctxReader ends with the context, also in the middle of a long file.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
