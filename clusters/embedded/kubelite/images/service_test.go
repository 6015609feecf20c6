package images

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// servedStore returns a Puller that reaches a store over a socket.
func servedStore(t *testing.T, s *Store) Puller {
	t.Helper()
	path := filepath.Join(t.TempDir(), "images.sock")
	l, err := net.Listen("unix", path)
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return Dial(path)
}

func TestServiceDirectAndOverASocket(t *testing.T) {
	host := testRegistry(t)
	push(t, appImage(t, "one"), host+"/app:1")
	for _, tt := range []struct {
		sentence string
		puller   func(*Store) Puller
	}{
		{"the store itself", func(s *Store) Puller { return s }},
		{"over a socket", func(s *Store) Puller { return servedStore(t, s) }},
	} {
		t.Run(tt.sentence, func(t *testing.T) {
			testService(t, tt.puller(testStore(t, t.TempDir())), host+"/app:1", host+"/none:1")
		})
	}
}

func testService(t *testing.T, p Puller, image, missing string) {
	ctx, s := context.Background(), NewService(p)
	spec := &runtimeapi.ImageSpec{Image: image}
	if resp, err := s.ImageStatus(ctx, spec, false); err != nil || resp.GetImage() != nil {
		t.Fatalf("before the pull: %v, %v", resp, err)
	}
	if _, err := p.Rootfs(ctx, image); !errors.Is(err, ErrNotFound) {
		t.Errorf("before the pull: %v, want ErrNotFound", err)
	}
	id, err := s.PullImage(ctx, spec, nil, nil)
	check(t, err)
	resp, err := s.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: id}, false)
	check(t, err)
	got := resp.GetImage()
	if got.GetId() != id || got.GetUid().GetValue() != 65532 || got.GetSize() != 5 || !cmp.Equal(got.GetRepoTags(), []string{image}) || len(got.GetRepoDigests()) != 1 {
		t.Errorf("image %v", got)
	}
	for _, filter := range []*runtimeapi.ImageFilter{nil, {Image: spec}} {
		if list, err := s.ListImages(ctx, filter); err != nil || len(list) != 1 || list[0].Id != id {
			t.Errorf("listed %v, %v", list, err)
		}
	}
	if list, err := s.ListImages(ctx, &runtimeapi.ImageFilter{Image: &runtimeapi.ImageSpec{Image: missing}}); err != nil || len(list) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
	fs, err := s.ImageFsInfo(ctx)
	check(t, err)
	if u := fs.ImageFilesystems[0]; u.UsedBytes.Value != 5 || u.InodesUsed.Value == 0 || !filepath.IsAbs(u.FsId.Mountpoint) {
		t.Errorf("file system %v", u)
	}
	img, err := p.Rootfs(ctx, id)
	check(t, err)
	wantApp(t, img, "one")
	if _, err := s.PullImage(ctx, &runtimeapi.ImageSpec{Image: missing}, nil, nil); err == nil || !strings.Contains(err.Error(), "no --image source matches; registry 127.0.0.1:") {
		t.Errorf("an unknown image: %v", err)
	}
	check(t, s.RemoveImage(ctx, spec))
	if list, err := s.ListImages(ctx, nil); err != nil || len(list) != 0 {
		t.Errorf("after RemoveImage: %v, %v", list, err)
	}
}

func TestImageUserForRunAsNonRoot(t *testing.T) {
	for _, tt := range []struct {
		sentence, user, name string
		uid                  *runtimeapi.Int64Value
	}{
		{"no user is root", "", "", &runtimeapi.Int64Value{Value: 0}},
		{"a number is a uid", "1000", "", &runtimeapi.Int64Value{Value: 1000}},
		{"a group does not matter", "1000:5", "", &runtimeapi.Int64Value{Value: 1000}},
		{"a name is a name", "app:app", "app", nil},
	} {
		img := criImage(Info{User: tt.user})
		if img.Username != tt.name || img.Uid.GetValue() != tt.uid.GetValue() || (img.Uid == nil) != (tt.uid == nil) {
			t.Errorf("%s: %v", tt.sentence, img)
		}
	}
}

func TestSocketThatIsNotThereIsNamed(t *testing.T) {
	_, err := Dial("/nowhere/images.sock").Pull(context.Background(), "app", Auth{})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/images.sock") {
		t.Errorf("error %v", err)
	}
}

func TestImageWithoutLayersCannotBeMounted(t *testing.T) {
	host := testRegistry(t)
	push(t, testImage(t, v1.Config{}), host+"/none:1")
	s := testStore(t, t.TempDir())
	_, err := s.Pull(context.Background(), host+"/none:1", Auth{})
	check(t, err)
	if _, err := s.Rootfs(context.Background(), host+"/none:1"); err == nil || !strings.Contains(err.Error(), "has no layers") {
		t.Errorf("error %v", err)
	}
}
