package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"shakedown.dev/shakedown/clusters"
)

// AddImage gives all nodes an image. A name without a tag, or with a *, stands for names that Preload tells later.
func (c *Cluster) AddImage(ctx context.Context, image clusters.Image) error {
	return c.load(ctx, []clusters.Image{image})
}

// load remembers the images, and gives the nodes those whose names are whole.
func (c *Cluster) load(ctx context.Context, images []clusters.Image) error {
	c.mu.Lock()
	c.images = append(c.images, images...)
	c.mu.Unlock()
	var whole []string
	for _, image := range images {
		if !isPattern(image.Name) {
			whole = append(whole, image.Name)
		}
	}
	return c.Preload(ctx, whole)
}

// Preload gives the nodes the images that pods are going to name, from the sources that match the names; for others
// the nodes ask the registries, as always.
func (c *Cluster) Preload(ctx context.Context, names []string) error {
	c.mu.Lock()
	bySource := map[string][]string{}
	for _, n := range names {
		if source, ok := sourceOf(c.images, n); ok && !slices.Contains(bySource[source], n) && !slices.Contains(c.loaded, n) {
			bySource[source] = append(bySource[source], n)
		}
	}
	c.mu.Unlock()
	for source, names := range bySource {
		if err := c.give(ctx, source, names); err != nil {
			return fmt.Errorf("image %s from %s: %w", names[0], source, err)
		}
		c.mu.Lock()
		c.loaded = append(c.loaded, names...)
		c.mu.Unlock()
	}
	return nil
}

// sourceOf is the source of the closest match: a whole name before one without a tag before one with a *.
func sourceOf(images []clusters.Image, wanted string) (source string, found bool) {
	best := 0
	for _, image := range images {
		if r := rank(image.Name, wanted); r > 0 && r >= best {
			best, source = r, image.Source
		}
	}
	return source, best > 0
}

func rank(pattern, wanted string) int {
	want, err := name.ParseReference(wanted)
	if err != nil {
		return 0
	}
	if strings.Contains(pattern, "*") {
		for _, text := range []string{want.Name(), want.Context().Name()} {
			if ok, _ := path.Match(pattern, text); ok {
				return 1
			}
		}
		return 0
	}
	have, err := name.ParseReference(pattern)
	switch {
	case err != nil:
		return 0
	case have.Name() == want.Name() && !isPattern(pattern):
		return 3
	case isPattern(pattern) && have.Context().Name() == want.Context().Name():
		return 2
	}
	return 0
}

// isPattern says whether a name stands for several: it has a *, or neither tag nor digest.
func isPattern(image string) bool {
	last := image[strings.LastIndexByte(image, '/')+1:]
	return strings.Contains(image, "*") || !strings.ContainsAny(last, ":@")
}

// give writes one archive with all the names and has every node import it, all at once.
func (c *Cluster) give(ctx context.Context, source string, names []string) error {
	image, done, err := open(ctx, source, c.gateway.folder)
	if err != nil {
		return err
	}
	defer done()
	archive, err := os.CreateTemp(c.gateway.folder, "image-*.tar")
	if err != nil {
		return err
	}
	defer os.Remove(archive.Name())
	refs := map[name.Reference]v1.Image{}
	for _, n := range names {
		ref, err := name.NewTag(n)
		if err != nil {
			return errors.Join(err, archive.Close())
		}
		refs[ref] = image
	}
	if err := errors.Join(tarball.MultiRefWrite(refs, archive), archive.Close()); err != nil {
		return err
	}
	nodes, err := c.provider.kind().ListInternalNodes(c.name)
	if err != nil {
		return explain(err)
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		all.Go(func() error {
			in, err := os.Open(archive.Name())
			if err != nil {
				return err
			}
			defer in.Close()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return wrapf(explain(nodeutils.LoadImageArchive(n, in)), "node %s", n)
		})
	}
	return all.Wait()
}

// open reads an image from where the source says, by way of the folder scratch; done frees what that took.
func open(ctx context.Context, source, scratch string) (image v1.Image, done func(), err error) {
	done = func() {}
	if dir, ok := strings.CutPrefix(source, "host:"); ok {
		image, err = fromFolder(dir)
		return image, done, err
	}
	source = strings.TrimPrefix(strings.TrimPrefix(source, "oci:"), "archive:")
	info, err := os.Stat(source)
	switch {
	case err == nil && info.IsDir():
		image, err = fromLayout(source)
		return image, done, err
	case err == nil:
		image, err = tarball.ImageFromPath(source, nil)
		return image, done, wrapf(err, "an archive must be docker save's of one image")
	}
	return fromDocker(ctx, strings.TrimPrefix(source, "registry:"), scratch)
}

// fromLayout is the image of an OCI layout for this machine's architecture.
func fromLayout(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		if m.MediaType.IsImage() && (m.Platform == nil || m.Platform.Satisfies(here())) {
			return index.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("no image for %s in the OCI layout", here())
}

// fromDocker takes an image that Docker has, or can pull.
func fromDocker(ctx context.Context, ref, scratch string) (v1.Image, func(), error) {
	if _, err := docker(ctx, "image", "inspect", "--format", "{{.Id}}", ref); err != nil {
		if _, err := docker(ctx, "pull", "--quiet", ref); err != nil {
			return nil, func() {}, err
		}
	}
	dir, err := os.MkdirTemp(scratch, "image-")
	if err != nil {
		return nil, func() {}, err
	}
	done := func() { _ = os.RemoveAll(dir) }
	file := dir + "/image.tar"
	if _, err := docker(ctx, "save", "--output", file, ref); err != nil {
		done()
		return nil, func() {}, err
	}
	image, err := tarball.ImageFromPath(file, nil)
	return image, done, err
}
