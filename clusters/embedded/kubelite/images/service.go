package images

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Service is the kubelet's ImageManagerService over a Puller.
type Service struct{ puller Puller }

var _ cri.ImageManagerService = (*Service)(nil)

// NewService returns the service; it holds no state of its own.
func NewService(p Puller) *Service { return &Service{p} }

// ListImages lists the images present, or the one that the filter names.
func (s *Service) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	if name := filter.GetImage().GetImage(); name != "" {
		info, err := s.puller.Status(ctx, name)
		if errors.Is(err, ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []*runtimeapi.Image{criImage(info)}, nil
	}
	list, err := s.puller.List(ctx)
	if err != nil {
		return nil, err
	}
	images := make([]*runtimeapi.Image, 0, len(list))
	for _, info := range list {
		images = append(images, criImage(info))
	}
	return images, nil
}

// ImageStatus answers without an image for one that is not present.
func (s *Service) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	info, err := s.puller.Status(ctx, image.GetImage())
	if errors.Is(err, ErrNotFound) {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ImageStatusResponse{Image: criImage(info)}, nil
}

// PullImage makes the image present and returns its ID.
func (s *Service) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	return s.puller.Pull(ctx, image.GetImage(), Auth{
		Username: auth.GetUsername(), Password: auth.GetPassword(), Auth: auth.GetAuth(),
		IdentityToken: auth.GetIdentityToken(), RegistryToken: auth.GetRegistryToken(),
	})
}

// RemoveImage forgets the image; it is no error if it is not present.
func (s *Service) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	return s.puller.Remove(ctx, image.GetImage())
}

// ImageFsInfo measures the cache. Containers' own layers lie elsewhere and are
// the runtime's to count.
func (s *Service) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	u, err := s.puller.Usage(ctx)
	if err != nil {
		return nil, fmt.Errorf("image file system: %w", err)
	}
	usage := &runtimeapi.FilesystemUsage{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: u.Dir},
		UsedBytes:  &runtimeapi.UInt64Value{Value: u.Bytes},
		InodesUsed: &runtimeapi.UInt64Value{Value: u.Inodes},
	}
	return &runtimeapi.ImageFsInfoResponse{
		ImageFilesystems:     []*runtimeapi.FilesystemUsage{usage},
		ContainerFilesystems: []*runtimeapi.FilesystemUsage{usage},
	}, nil
}

// Close does nothing: the Puller belongs to its maker.
func (s *Service) Close(context.Context) error { return nil }

func criImage(info Info) *runtimeapi.Image {
	img := &runtimeapi.Image{Id: info.ID, RepoTags: info.RepoTags, RepoDigests: info.RepoDigests, Size: info.Size}
	// The kubelet judges runAsNonRoot by these: no user means root.
	user, _, _ := strings.Cut(info.User, ":")
	if uid, err := strconv.ParseInt(user, 10, 64); err == nil || user == "" {
		img.Uid = &runtimeapi.Int64Value{Value: uid}
	} else {
		img.Username = user
	}
	return img
}
