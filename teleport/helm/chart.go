// Package helm installs, upgrades and rolls back Teleport charts with Helm's SDK, and renders them for a plan.
package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/registry"

	"shakedown.dev/shakedown/standin/charts"
)

// Names of the built-in charts.
const (
	Standin = "standin" // the stand-in's cluster
	Agents  = "agents"  // the fleet of agents, for the stand-in and for real Teleport
)

// Ref says where a chart comes from:
//
//	standin, agents           built in; Version is any like 1.1.0
//	a folder or archive       by path
//	https://HOST/…#NAME       chart NAME of a repository
//	https://HOST/…/X.tgz      an archive
//	oci://HOST/…/NAME         a registry
type Ref struct {
	Chart   string
	Version string // of a repository or registry: empty is the newest release
}

// String is the chart with its version, for people.
func (r Ref) String() string {
	if r.Version == "" {
		return r.Chart
	}
	return r.Chart + " " + r.Version
}

// Builtin tells whether the chart is one of ours.
func (r Ref) Builtin() bool { return r.Chart == Standin || r.Chart == Agents }

// Load fetches the chart if need be and reads it. Downloads go to the folder cache, which is made; none: they are not
// kept.
func (r Ref) Load(ctx context.Context, cache string) (*chart.Chart, error) {
	switch r.Chart {
	case "":
		return nil, errors.New("no chart is named: want standin, a folder, an archive, https://REPOSITORY#NAME or oci://…")
	case Standin:
		return charts.Load(charts.Cluster, r.Version)
	case Agents:
		return charts.Load(charts.Agents, r.Version)
	}
	if cache == "" && r.remote() {
		dir, err := os.MkdirTemp("", "shakedown-charts-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		cache = dir
	}
	path, err := r.locate(ctx, cache)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w%s", r, err, r.hint(err))
	}
	c, err := loader.Load(path)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", r, err)
	}
	if err := r.check(c); err != nil {
		return nil, fmt.Errorf("chart %s: %w", r, err)
	}
	return c, nil
}

// check refuses a chart that cannot be installed, or is not the one asked for.
func (r Ref) check(c *chart.Chart) error {
	if r.Version != "" && c.Metadata.Version != r.Version && !strings.ContainsAny(r.Version, "^~<>=*x ") {
		return fmt.Errorf("its version is %s", c.Metadata.Version)
	}
	return action.CheckDependencies(c, dependencies(c))
}

func (r Ref) locate(ctx context.Context, cache string) (string, error) {
	if !r.remote() {
		if _, err := os.Stat(r.Chart); err != nil {
			return "", fmt.Errorf("%w (want standin, a folder, an archive, https://REPOSITORY#NAME or oci://…)", err)
		}
		return r.Chart, nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	settings := cli.New()
	settings.RepositoryCache, settings.ContentCache = cache, cache
	install := action.NewInstall(new(action.Configuration))
	opts := []registry.ClientOption{registry.ClientOptWriter(io.Discard), registry.ClientOptCredentialsFile(settings.RegistryConfig)}
	if r.loopback() {
		opts, install.PlainHTTP = append(opts, registry.ClientOptPlainHTTP()), true
	}
	client, err := registry.NewClient(opts...)
	if err != nil {
		return "", err
	}
	install.SetRegistryClient(client)
	install.Version = r.Version
	name := r.Chart
	if u, err := url.Parse(r.Chart); err == nil && u.Fragment != "" {
		name, u.Fragment = u.Fragment, ""
		install.RepoURL = u.String()
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	return install.LocateChart(name, settings)
}

func (r Ref) remote() bool { return strings.Contains(r.Chart, "://") }

// loopback tells whether the registry is on this machine, where it has no certificate, as Docker has it too.
func (r Ref) loopback() bool {
	u, err := url.Parse(r.Chart)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// hint says what to do about a chart that cannot be fetched, as far as it can be told.
func (r Ref) hint(err error) string {
	text := strings.ToLower(err.Error())
	var dns *net.DNSError
	switch {
	case strings.HasPrefix(r.Chart, "http") && !strings.Contains(r.Chart, "#") && !strings.HasSuffix(r.Chart, ".tgz"):
		return " (of a repository, say which chart: " + r.Chart + "#NAME)"
	case errors.As(err, &dns):
		return " (is the host's name right, and does this machine reach it? A folder or an archive needs no network)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return " (nothing listens there)"
	case strings.Contains(text, "401"), strings.Contains(text, "403"), strings.Contains(text, "unauthorized"), strings.Contains(text, "denied"):
		return " (log in first: helm registry login HOST)"
	case strings.Contains(text, "not found"), strings.Contains(text, "404"), strings.Contains(text, "no chart"):
		return " (is there such a chart, and such a version of it? helm search repo, or helm show chart, tell)"
	}
	return ""
}
