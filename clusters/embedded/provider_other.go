//go:build !linux

package embedded

import (
	"context"
	"fmt"
	"runtime"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

func unsupported() error {
	err := fmt.Errorf("%w: the embedded cluster is made of Linux namespaces, and this is %s", clusters.ErrUnsupported, runtime.GOOS)
	return exit.Hint(err, "use --cluster kind (with Docker) or --cluster existing (with a kubeconfig)")
}

// Up returns ErrUnsupported: there are no namespaces here.
func (p *Provider) Up(context.Context, clusters.Spec) (clusters.Cluster, error) {
	return nil, unsupported()
}

// Down returns ErrUnsupported.
func (p *Provider) Down(context.Context, string) error { return unsupported() }

// List returns ErrUnsupported.
func (p *Provider) List(context.Context) ([]clusters.Cluster, error) { return nil, unsupported() }

// Diagnose has one finding: not Linux.
func (p *Provider) Diagnose(context.Context) []Finding {
	return []Finding{{Name: "Linux", Required: true, Detail: unsupported().Error(), Do: "use --cluster kind or --cluster existing"}}
}
