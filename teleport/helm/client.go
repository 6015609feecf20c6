package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	ri "helm.sh/helm/v4/pkg/release"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// RunLabel names the run on releases and on every object they have.
const RunLabel = "shakedown.dev/run"

// Client works on the releases of one namespace.
type Client struct {
	config    *rest.Config
	namespace string
	run       string
	log       *slog.Logger
	kube      kubernetes.Interface
	ephemeral bool
}

// New makes a Client. run labels what it makes; empty labels nothing.
func New(config *rest.Config, namespace, run string, log *slog.Logger) (*Client, error) {
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Client{config: config, namespace: namespace, run: run, log: log, kube: k}, nil
}

// Ephemeral has releases say that they are to end with the run.
func (c *Client) Ephemeral() *Client {
	c.ephemeral = true
	return c
}

// Release is what is to be installed, or upgraded to.
type Release struct {
	Name    string
	Chart   *chart.Chart
	Values  Values        // the whole: nothing of an earlier revision is reused
	Timeout time.Duration // for hooks and for readiness; zero: five minutes, as helm has it
	// RollbackOnFailure has a failed upgrade roll back to the last revision that was well, within another
	// Timeout; the error is that of the upgrade all the same. It was --atomic before Helm 4.
	RollbackOnFailure bool
}

// Revision is one state of a release.
type Revision struct {
	Name    string
	Number  int
	Status  string // deployed, failed, pending-upgrade, …
	Chart   string // name-version
	App     string // version of the program
	Values  Values
	Labels  map[string]string
	Applied time.Time
}

// ErrNoRelease means that there is no such release.
var ErrNoRelease = driver.ErrReleaseNotFound

// Install installs a release and waits until its objects are ready. The namespace is made if need be.
func (c *Client) Install(ctx context.Context, r Release) (Revision, error) {
	return c.watched(ctx, "install", r, func(ctx context.Context, cfg *action.Configuration) (ri.Releaser, error) {
		i := action.NewInstall(cfg)
		i.ReleaseName, i.Namespace, i.CreateNamespace = r.Name, c.namespace, c.lacksNamespace(ctx)
		i.WaitStrategy, i.Timeout = kube.StatusWatcherStrategy, r.Timeout
		i.Labels, i.PostRenderer = c.labels(), c.postRenderer()
		return i.RunWithContext(ctx, r.Chart, r.Values)
	})
}

// lacksNamespace says whether the namespace is to be made. Helm applies it to one that is there, too, and so leaves a
// label behind on what is somebody else's.
func (c *Client) lacksNamespace(ctx context.Context) bool {
	_, err := c.kube.CoreV1().Namespaces().Get(ctx, c.namespace, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// Upgrade upgrades a release and waits until its objects are ready, as Kubernetes counts: the last old pods may
// still be there, serving sessions, when it returns.
func (c *Client) Upgrade(ctx context.Context, r Release) (Revision, error) {
	return c.watched(ctx, "upgrade", r, func(ctx context.Context, cfg *action.Configuration) (ri.Releaser, error) {
		u := action.NewUpgrade(cfg)
		u.Namespace, u.ResetValues, u.MaxHistory = c.namespace, true, 10
		u.WaitStrategy, u.Timeout, u.RollbackOnFailure = kube.StatusWatcherStrategy, r.Timeout, r.RollbackOnFailure
		u.Labels, u.PostRenderer = c.labels(), c.postRenderer()
		return u.RunWithContext(ctx, r.Name, r.Chart, r.Values)
	})
}

// Rollback goes back to an earlier revision (0: the one before) and waits. It cannot be cancelled before timeout.
func (c *Client) Rollback(_ context.Context, name string, revision int, timeout time.Duration) (Revision, error) {
	cfg, err := c.configuration()
	if err != nil {
		return Revision{}, err
	}
	r := action.NewRollback(cfg)
	r.Version, r.Timeout, r.WaitStrategy = revision, timeout, kube.StatusWatcherStrategy
	if err := r.Run(name); err != nil {
		return Revision{}, fmt.Errorf("roll back %s: %w", name, err)
	}
	return c.Status(name)
}

// Uninstall removes a release and waits until its objects are gone. That there is none is no error.
func (c *Client) Uninstall(name string, timeout time.Duration) error {
	cfg, err := c.configuration()
	if err != nil {
		return err
	}
	u := action.NewUninstall(cfg)
	u.IgnoreNotFound, u.Timeout, u.WaitStrategy = true, timeout, kube.StatusWatcherStrategy
	if _, err := u.Run(name); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("uninstall %s: %w", name, err)
	}
	return nil
}

// Status gives a release's newest revision; errors.Is ErrNoRelease if there is none.
func (c *Client) Status(name string) (Revision, error) {
	cfg, err := c.configuration()
	if err != nil {
		return Revision{}, err
	}
	got, err := action.NewGet(cfg).Run(name)
	if err != nil {
		return Revision{}, fmt.Errorf("release %s: %w", name, err)
	}
	return revision(got)
}

// History gives all kept revisions of a release, oldest first.
func (c *Client) History(name string) ([]Revision, error) {
	cfg, err := c.configuration()
	if err != nil {
		return nil, err
	}
	all, err := action.NewHistory(cfg).Run(name)
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", name, err)
	}
	var out []Revision
	for _, r := range all {
		rev, err := revision(r)
		if err != nil {
			return nil, err
		}
		out = append(out, rev)
	}
	return out, nil
}

func revision(r ri.Releaser) (Revision, error) {
	rel, ok := r.(*release.Release)
	if !ok {
		return Revision{}, fmt.Errorf("a release of type %T", r)
	}
	out := Revision{Name: rel.Name, Number: rel.Version, Values: rel.Config, Labels: rel.Labels}
	if rel.Info != nil {
		out.Status, out.Applied = rel.Info.Status.String(), rel.Info.LastDeployed
	}
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		out.Chart, out.App = rel.Chart.Metadata.Name+"-"+rel.Chart.Metadata.Version, rel.Chart.AppVersion()
	}
	return out, nil
}

func (c *Client) configuration() (*action.Configuration, error) {
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(c.log.Handler()))
	return cfg, cfg.Init(getter{c.config, c.namespace}, c.namespace, "secret")
}

func (c *Client) labels() map[string]string {
	if c.run == "" {
		return nil
	}
	labels := map[string]string{RunLabel: c.run}
	if c.ephemeral {
		labels[EphemeralLabel] = "yes"
	}
	return labels
}

// postRenderer labels every object with the run, so that what a run left can be found without its folder. Pod
// templates stay as they are.
type postRenderer string

func (c *Client) postRenderer() interface {
	Run(*bytes.Buffer) (*bytes.Buffer, error)
} {
	return postRenderer(c.run)
}

func (run postRenderer) Run(in *bytes.Buffer) (*bytes.Buffer, error) {
	if run == "" {
		return in, nil
	}
	objects, err := decode(in.Bytes())
	if err != nil {
		return nil, err
	}
	out := new(bytes.Buffer)
	for _, o := range objects {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[RunLabel] = string(run)
		o.SetLabels(labels)
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out, nil
}

// getter gives Helm the cluster it is to work on, from a configuration instead of a kubeconfig file.
type getter struct {
	config    *rest.Config
	namespace string
}

func (g getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	d, err := discovery.NewDiscoveryClientForConfig(g.config)
	if err != nil {
		return nil, err
	}
	return memory.NewMemCacheClient(d), nil
}

func (g getter) ToRESTMapper() (meta.RESTMapper, error) {
	d, err := g.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(d), nil
}

func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}
