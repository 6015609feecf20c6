package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Annotations under which tools note a name in an index: the OCI image
// specification's, and containerd's.
var nameAnnotations = [...]string{"io.containerd.image.name", "org.opencontainers.image.ref.name"}

// fromLayout reads an OCI image layout.
func (s *Store) fromLayout(ctx context.Context, r ref, dir string) (record, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return record{}, fmt.Errorf("no OCI layout: %w", err)
	}
	img, digest, err := imageOf(index, r)
	if err != nil {
		return record{}, err
	}
	return s.unpack(ctx, r, img, digest.String())
}

// imageOf picks the image of that name from an index, and this machine's kind of
// it. A single image is taken whatever its name.
func imageOf(index v1.ImageIndex, r ref) (v1.Image, v1.Hash, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, v1.Hash{}, err
	}
	desc, err := pickDescriptor(manifest.Manifests, r)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	if desc.MediaType.IsIndex() {
		child, err := index.ImageIndex(desc.Digest)
		if err != nil {
			return nil, v1.Hash{}, err
		}
		img, _, err := imageOf(child, r)
		return img, desc.Digest, err
	}
	img, err := index.Image(desc.Digest)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	return img, desc.Digest, checkConfig(img)
}

// checkConfig reports a configuration that is not the one the manifest names: a
// layout may hold anything under any name.
func checkConfig(img v1.Image) error {
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	id, err := img.ConfigName()
	if err != nil {
		return err
	}
	if id != manifest.Config.Digest {
		return fmt.Errorf("configuration has digest %s, the manifest says %s", id, manifest.Config.Digest)
	}
	return nil
}

func pickDescriptor(all []v1.Descriptor, r ref) (v1.Descriptor, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(d v1.Descriptor) bool {
		return !d.MediaType.IsImage() && !d.MediaType.IsIndex() || d.Platform != nil && d.Platform.OS == "unknown" // attestations
	})
	if len(all) == 0 {
		return v1.Descriptor{}, errors.New("index has no image")
	}
	if len(all) == 1 {
		return all[0], nil
	}
	for _, describes := range []func(v1.Descriptor, ref) bool{hasName, hasTag} {
		if i := slices.IndexFunc(all, func(d v1.Descriptor) bool { return describes(d, r) }); i >= 0 {
			return all[i], nil
		}
	}
	for _, d := range all {
		if d.Platform != nil && d.Platform.Satisfies(platform()) && !named(d) {
			return d, nil
		}
	}
	return v1.Descriptor{}, fmt.Errorf("none of its %d images is %s for %s; it has %s", len(all), r.full, platform(), strings.Join(describeAll(all), ", "))
}

func named(d v1.Descriptor) bool {
	return slices.ContainsFunc(nameAnnotations[:], func(key string) bool { return d.Annotations[key] != "" })
}

// hasName tells whether the descriptor has the digest or full name asked for.
func hasName(d v1.Descriptor, r ref) bool {
	if r.digest != "" {
		return d.Digest.String() == r.digest
	}
	return slices.ContainsFunc(nameAnnotations[:], func(key string) bool {
		have, err := parseRef(d.Annotations[key])
		return err == nil && have.full == r.full
	})
}

// hasTag tells whether it has the tag asked for: the specification's form.
func hasTag(d v1.Descriptor, r ref) bool {
	return slices.ContainsFunc(nameAnnotations[:], func(key string) bool {
		text := d.Annotations[key]
		return text != "" && r.tag() == r.repo+":"+text
	})
}

func describeAll(all []v1.Descriptor) []string {
	var names []string
	for _, d := range all {
		text := d.Digest.String()
		if d.Platform != nil {
			text = d.Platform.String()
		}
		for _, key := range nameAnnotations {
			if d.Annotations[key] != "" {
				text = d.Annotations[key]
				break
			}
		}
		names = append(names, text)
	}
	return names
}
