package run

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/agents"
	"shakedown.dev/shakedown/teleport/audit"
	"shakedown.dev/shakedown/teleport/etcd"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/lab"
	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/tctl"
)

// Releases that a run installs beside the system under test.
const (
	agentsRelease  = "agents"
	controlRelease = "control" // agents that listen themselves, for the control arm
)

// fleetLabel tells the agents of one release from those of the other.
const fleetLabel = "shakedown"

// installTimeout bounds each Helm call of the installation.
const installTimeout = 3 * time.Minute

// role is what the load's users may do: everything a session needs.
const role = "shakedown-load"

// identityTTL is longer than the run, as far as a role allows: sessions use the identities that there were at its
// beginning. The wallet renews its own before they end.
func identityTTL(p *scenarios.Plan) time.Duration {
	return min(2*time.Hour+2*p.LeastTime(), 29*time.Hour)
}

// system is the installed system under test, from outside.
type system struct {
	plan    *scenarios.Plan
	cluster clusters.Cluster
	config  *rest.Config
	client  kubernetes.Interface
	helm    *helm.Client
	tctl    tctl.Tctl
	facts   lab.Facts
	values  helm.Values // of the installed release
	wallet  *tctl.Wallet
	agents  []history.Agent // dialable
	control []history.Agent // beside Teleport
	etcd    *etcd.Etcd      // brought for several auths; nil: none is needed
	charts  string          // folder for charts that are downloaded
	filled  []lab.Default
	lost    func(error) // told when the way that all load takes broke; nil: nobody is
	log     *slog.Logger
}

// reach makes the clients of a cluster that is up.
func reach(ctx context.Context, plan *scenarios.Plan, c clusters.Cluster, provider, runID, charts string, log *slog.Logger) (*system, error) {
	s := &system{plan: plan, cluster: c, charts: charts, log: log}
	var err error
	if s.config, err = c.RESTConfig(ctx); err != nil {
		return nil, err
	}
	s.config.QPS, s.config.Burst = 100, 200
	if s.client, err = kubernetes.NewForConfig(s.config); err != nil {
		return nil, err
	}
	t := plan.Teleport
	if s.helm, err = helm.New(s.config, t.Namespace, runID, log); err != nil {
		return nil, err
	}
	run, err := tctl.Pods{Config: s.config, Namespace: t.Namespace, Release: t.Release}.Runner()
	if err != nil {
		return nil, err
	}
	s.tctl = tctl.Tctl{Run: run}
	if s.facts, err = lab.Look(ctx, s.client, t.Release, t.Namespace, balances(provider)); err != nil {
		return nil, err
	}
	s.facts.Standin = helm.Ref{Chart: t.From.Chart}.Builtin()
	s.facts.AgentToken, err = lab.NewToken()
	return s, err
}

// balances says whether Services of type LoadBalancer get an address: on the embedded cluster they do, on kind nobody
// gives them one, and on others it is not known.
func balances(provider string) bool { return provider == "embedded" }

// install brings the system under test up: chart, agents, users. When one agent can be dialled it calls beside, and
// what that returns when all agents are there but their tunnels not looked at.
func (s *system) install(ctx context.Context, runID, private string, step func(string, func() error) error, beside func(context.Context) func(context.Context) error) error {
	t := s.plan.Teleport
	if _, ok := s.cluster.(clusters.Preloader); ok {
		if err := step("Giving the nodes their images", func() error { return s.preload(ctx) }); err != nil {
			return err
		}
	}
	err := step(fmt.Sprintf("Installing %s %s", t.From.Chart, t.From.Version), func() error { return s.installChart(ctx, runID) })
	if err != nil {
		return err
	}
	if err := s.openGateway(ctx, runID, step); err != nil {
		return err
	}
	if err := step("Making users", func() error { return s.makeUsers(ctx, private) }); err != nil {
		return err
	}
	fleet := s.fleet(t.Agents.Pods, t.Agents.PerPod, false)
	return step(fmt.Sprintf("Waiting for %d agents", fleet.Count()), func() error {
		// Both at once: neither needs the other.
		var both errgroup.Group
		var wait func(context.Context) error
		both.Go(func() (err error) {
			arm := s.fleet(1, 1, true)
			if arm.Extra, err = s.asideOf(ctx, arm.Extra); err != nil {
				return err
			}
			if s.control, err = s.installFleet(ctx, controlRelease, arm); err == nil {
				wait = beside(ctx)
			}
			return err
		})
		both.Go(func() (err error) {
			s.agents, err = s.installFleet(ctx, agentsRelease, fleet)
			return err
		})
		if err := both.Wait(); err != nil {
			return err
		}
		if err := wait(ctx); err != nil {
			return err
		}
		return s.awaitTunnels(ctx, fleet)
	})
}

// openGateway has load come from inside the cluster, if that was asked for. It carries the run's label and goes with it.
func (s *system) openGateway(ctx context.Context, runID string, step func(string, func() error) error) error {
	c, ok := s.cluster.(clusters.Gatewayed)
	if !ok {
		return nil
	}
	if r, ok := s.cluster.(clusters.Reacher); !ok || r.Reach() != "gateway" {
		return nil
	}
	return step("Starting the gateway that load goes through", func() error {
		return c.OpenGateway(ctx, s.plan.Teleport.Namespace, map[string]string{helm.RunLabel: runID}, s.lost)
	})
}

// recordsAtProxy: a proxy that records logs in at the node with the agent that the client forwards.
func (s *system) recordsAtProxy() bool {
	mode, _ := helm.Get(s.values, "sessionRecording")
	text, _ := mode.(string)
	return strings.HasPrefix(text, "proxy")
}

// awaitTunnels returns when every agent can be dialled through every proxy by
// itself: agents find the proxies one after another, and a session that comes
// before its tunnel would be refused for no fault of anybody's.
func (s *system) awaitTunnels(ctx context.Context, fleet agents.Fleet) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	proxies, err := pods.List(ctx, s.client, s.plan.Teleport.Namespace, s.plan.Teleport.Release, pods.Proxy)
	if err != nil {
		return err
	}
	for _, p := range proxies {
		finder, err := s.finder(p.Through(false), fleet)
		if err != nil {
			return err
		}
		if status, err := finder.Wait(ctx, fleet.Count()); err != nil {
			return fmt.Errorf("tunnels to %s: %d of %d: %w (last: %w)", p.Name, status.Dialable, fleet.Count(), err, status.Last)
		}
	}
	return nil
}

// finder looks for a fleet through one proxy.
func (s *system) finder(proxy ssh.Proxy, fleet agents.Fleet) (agents.Finder, error) {
	client, err := ssh.New(ssh.Options{Dial: s.cluster.DialContext, Identity: s.observer(), Timeout: 10 * time.Second})
	return agents.Finder{
		Tctl: s.tctl, SSH: client, Proxy: proxy,
		Match: func(n tctl.Node) bool { return n.Labels[fleetLabel] == fleet.Labels[fleetLabel] },
	}, err
}

func (s *system) installChart(ctx context.Context, runID string) error {
	t := s.plan.Teleport
	if err := s.needsStorage(runID); err != nil {
		return err
	}
	s.values, s.filled = s.fill(t.From)
	secret, err := lab.SelfSigned(secretName(s.facts, s.values), t.Namespace, runID, s.facts.ProxyHost())
	if err != nil {
		return err
	}
	if err := lab.EnsureSecret(ctx, s.client, secret); err != nil {
		return err
	}
	if err := s.bringStorage(ctx); err != nil {
		return err
	}
	return s.apply(ctx, t.From, s.helm.Install)
}

// secretName is the TLS secret that the values name.
func secretName(f lab.Facts, v helm.Values) string {
	for _, path := range [][]string{{"proxy", "tls", "existingSecretName"}, {"tls", "existingSecretName"}} {
		if name, ok := helm.Get(v, path...); ok {
			if text, ok := name.(string); ok && text != "" {
				return text
			}
		}
	}
	return f.TLSSecret()
}

// apply installs or upgrades to a release of the scenario.
func (s *system) apply(ctx context.Context, r scenarios.Release, how func(context.Context, helm.Release) (helm.Revision, error)) error {
	chart, err := helm.Ref{Chart: r.Chart, Version: r.Version}.Load(ctx, s.charts)
	if err != nil {
		return err
	}
	values, _ := s.fill(r)
	_, err = how(ctx, helm.Release{Name: s.plan.Teleport.Release, Chart: chart, Values: values, Timeout: timeoutOf(ctx)})
	return err
}

// timeoutOf is what is left of ctx, as Helm wants to know it.
func timeoutOf(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return installTimeout
}

func (s *system) makeUsers(ctx context.Context, private string) error {
	if err := s.tctl.EnsureRole(ctx, tctl.Role{Name: role, Logins: []string{"root"}}); err != nil {
		return err
	}
	// One more than the load needs: its playback must not be anyone's session.
	users, err := s.tctl.EnsureUsers(ctx, "load", s.plan.Teleport.Users+1, role)
	if err != nil {
		return err
	}
	s.wallet, err = tctl.OpenWallet(ctx, tctl.WalletOptions{
		Tctl: s.tctl, Folder: private, TTL: identityTTL(s.plan), KubeCluster: s.facts.ProxyHost(), Users: users,
		// An RSA key, as 13 signs, costs three times the processor time at each opening.
		Rekey: audit.Rekeyer(s.auditOptions(), s.facts.ProxyHost()),
	})
	return err
}

// loadUsers are the identities that sessions use, and observer the one that
// looks at them.
func (s *system) loadUsers() []*identity.Identity {
	users := s.wallet.Users()
	out := make([]*identity.Identity, 0, len(users)-1)
	for _, u := range users[:len(users)-1] {
		out = append(out, s.wallet.Get(u))
	}
	return out
}

func (s *system) observer() *identity.Identity {
	return s.wallet.Get(s.wallet.Users()[len(s.wallet.Users())-1])
}

func (s *system) fleet(podCount, perPod int, direct bool) agents.Fleet {
	f := agents.Fleet{Pods: podCount, PerPod: perPod, Version: s.plan.Teleport.From.Version, Direct: direct,
		Labels: map[string]string{fleetLabel: agentsRelease}}
	if direct {
		f.Labels[fleetLabel] = controlRelease
	}
	if s.facts.Standin {
		f.Extra = s.standinAgents(direct)
	} else {
		f.Image = s.imageOf()
	}
	return f
}

// standinAgents are values of agents that are the stand-in: they behave like
// its other parts, and answer in their own process, since the login shell of
// this machine would be what is measured, with whatever its profile starts. The
// control arm has no planted faults: it is what they are held against.
func (s *system) standinAgents(control bool) helm.Values {
	v := helm.Values{"extraEnv": []any{helm.Values{"name": "STANDIN_SHELL", "value": "echo"}}}
	keys := []string{"behaveAs", "timeFactor", "tunnelBackoff", "faults"}
	if control {
		keys = keys[:3]
	}
	for _, key := range keys {
		if set, ok := helm.Get(s.values, "standin", key); ok {
			v = helm.Merge(v, helm.Set(set, "standin", key))
		}
	}
	return v
}

// imageOf is the repository of the installed auths' image: agents run the same.
func (s *system) imageOf() string {
	list, err := s.client.CoreV1().Pods(s.plan.Teleport.Namespace).List(context.Background(),
		metav1.ListOptions{LabelSelector: pods.Selector(s.plan.Teleport.Release, pods.Auth)})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	return repository(list.Items[0].Spec.Containers)
}

func repository(containers []corev1.Container) string {
	for _, c := range containers {
		if c.Name != "teleport" {
			continue
		}
		for i := len(c.Image) - 1; i >= 0 && c.Image[i] != '/'; i-- {
			if c.Image[i] == ':' {
				return c.Image[:i]
			}
		}
		return c.Image
	}
	return ""
}

// installFleet installs agents and waits until each can be dialled.
func (s *system) installFleet(ctx context.Context, name string, fleet agents.Fleet) ([]history.Agent, error) {
	chart, err := helm.Ref{Chart: helm.Agents}.Load(ctx, s.charts)
	if err != nil {
		return nil, err
	}
	if _, err := s.helm.Install(ctx, helm.Release{Name: name, Chart: chart, Values: fleet.Values(s.facts), Timeout: installTimeout}); err != nil {
		return nil, s.astray(err)
	}
	finder, err := s.finder(ssh.Proxy{Address: net.JoinHostPort(s.facts.ProxyHost(), "443")}, fleet)
	if err != nil {
		return nil, err
	}
	status, err := finder.Wait(ctx, fleet.Count())
	if err != nil {
		return nil, s.astray(fmt.Errorf("release %s: %w", name, err))
	}
	of, err := pods.List(ctx, s.client, s.plan.Teleport.Namespace, name, pods.Agent)
	if err != nil {
		return nil, err
	}
	return agents.Named(status.Nodes, of), nil
}

// astray says what to do about agents that do not come, where they may have been sent to another place.
func (s *system) astray(err error) error {
	name, ok := helm.Get(s.values, "clusterName")
	if !ok || name == s.facts.ProxyHost() {
		return err
	}
	return exit.Hint(err, fmt.Sprintf("proxies send agents to clusterName, which is %v: does that lead to them? Leave it out of teleport.from.values, and it is %s, which does",
		name, s.facts.ProxyHost()))
}

// openAudit reaches the auths' API.
func (s *system) openAudit() (*audit.Log, error) {
	opts := s.auditOptions()
	opts.Identity, opts.Rate = s.observer, 200
	return audit.Open(opts)
}

func (s *system) auditOptions() audit.Options {
	return audit.Options{Dial: s.cluster.DialContext, Address: net.JoinHostPort(s.facts.AuthHost(), pods.AuthPort)}
}
