package cloud

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// StorageClassName is the name of the default storage class.
const StorageClassName = "standard"

func storageClass() *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	reclaim := v1.PersistentVolumeReclaimDelete
	expand := false
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        StorageClassName,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:          Provisioner,
		VolumeBindingMode:    &mode,
		ReclaimPolicy:        &reclaim,
		AllowVolumeExpansion: &expand,
	}
}

// ensureStorageClass makes the default class unless one of its name is there. It
// tries until it can: the API server, or its roles, may be a moment away.
func ensureStorageClass(ctx context.Context, client kubernetes.Interface, log *slog.Logger) error {
	const retry = 200 * time.Millisecond
	said := ""
	err := wait.PollUntilContextCancel(ctx, retry, true, func(ctx context.Context) (bool, error) {
		_, err := client.StorageV1().StorageClasses().Create(ctx, storageClass(), metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			return true, nil
		}
		if text := err.Error(); text != said {
			log.Info("storage class not made yet", "error", text)
			said = text
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("make storage class %s (last: %s): %w", StorageClassName, said, err)
	}
	return nil
}
