package chaos

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/undo"
)

var connectionReset = Kind{
	Name: "connectionReset", Proof: "none of the chosen connections is in the pods' socket tables any more", Healed: "the workload has all replicas ready, and the pods have as many connections with others of the namespace as before, or as many as came back in 30 s",
	Where:     "clusters that run programs on their nodes (embedded, kind), with ss and a kernel that has INET_DIAG_DESTROY",
	Example:   "connectionReset: {select: {component: proxy, count: 1}, share: 50%}",
	Slow:      slowReconnect,
	available: needs("ss", "command -v ss nsenter"),
	inject: func(ctx context.Context, s *Site) (Injection, error) {
		share := s.Do.Args.Float("share")
		return s.resetConnections(ctx, func(all []connection) []connection {
			want := int(math.Ceil(share*float64(len(all)) - 1e-9))
			// The table's order is the kernel's hash order: the seed decides, not the kernel.
			r := rand.New(rand.NewPCG(s.Do.Selects["select"].Seed, uint64(len(all))))
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			return all[:want]
		})
	},
}

var reconnectStorm = Kind{
	Name: "reconnectStorm", Proof: "none of the agents' connections of before is in their socket tables any more; with who: clients, none that the proxies had with others than pods of the namespace", Healed: connectionReset.Healed,
	Where:     connectionReset.Where,
	Example:   "reconnectStorm: {who: agents}",
	Slow:      slowReconnect,
	available: needs("ss", "command -v ss nsenter"),
	inject:    injectStorm,
}

func injectStorm(ctx context.Context, s *Site) (Injection, error) {
	if s.Do.Args.String("who") != "clients" {
		s.choose(scenarios.Selection{Component: "agent", All: true})
		return s.resetConnections(ctx, func(all []connection) []connection { return all })
	}
	ours, err := s.addresses(ctx)
	if err != nil {
		return nil, err
	}
	s.choose(scenarios.Selection{Component: "proxy", All: true})
	return s.resetConnections(ctx, func(all []connection) []connection {
		return slices.DeleteFunc(all, func(c connection) bool { return ours[c.peer.Addr().Unmap()] || c.peer.Addr().IsLoopback() })
	})
}

// choose says what is selected where the scenario leaves it to the fault.
func (s *Site) choose(sel scenarios.Selection) {
	s.Do.Selects = map[string]*scenarios.Selection{"select": &sel}
}

// connection is one line of a pod's socket table. The kernel's cookie tells it from a later one between the
// same ports: who connects again at once often gets the port that has just become free.
type connection struct {
	local, peer netip.AddrPort
	cookie      string
}

const (
	// inPod runs its arguments in the network namespace of a container.
	inPod     = findContainer + `p=$(main $1) || { echo it has no process >&2; exit 1; }; shift; exec nsenter -t $p -n "$@"`
	killBatch = 40 // filters in one call of ss
)

// resets are connections of pods that are cut.
type resets struct {
	site   *Site
	pods   []corev1.Pod
	ids    []string
	owners []owner
	cut    [][]connection       // of each pod
	inner  []map[netip.Addr]int // connections of each pod with others of the namespace, by their address, before
	began  time.Time
}

// reconnectBound is how long pods get to connect to one another again; what is missing then is told.
const reconnectBound = 30 * time.Second

// resetConnections cuts those connections of the selected pods that choose returns.
func (s *Site) resetConnections(ctx context.Context, choose func([]connection) []connection) (Injection, error) {
	pods, err := s.HitPods(ctx)
	if err != nil {
		return nil, err
	}
	containers, err := s.containers(pods)
	if err != nil {
		return nil, err
	}
	r := &resets{site: s, pods: pods, began: time.Now()}
	ours, err := s.addresses(ctx)
	if err != nil {
		return nil, err
	}
	total := 0
	for i := range pods {
		o, err := s.ownerOf(ctx, &pods[i])
		if err != nil {
			return nil, err
		}
		all, err := s.connections(ctx, containers[i].id)
		if err != nil {
			return nil, fmt.Errorf("connections of %s: %w", pods[i].Name, err)
		}
		r.inner = append(r.inner, countPeers(all, ours))
		r.ids, r.owners, r.cut = append(r.ids, containers[i].id), append(r.owners, o), append(r.cut, choose(all))
		total += len(r.cut[i])
	}
	if total == 0 {
		return nil, fmt.Errorf("%w: the pods have no such connection", ErrEmpty)
	}
	for i := range pods {
		change := undo.Change{Kind: undo.PodsRemoved, What: "reset connections of " + pods[i].Name, Object: r.owners[i].object()}
		if err := s.Change(ctx, change, func(ctx context.Context) error { return r.kill(ctx, i) }); err != nil {
			return effect{site: s, settle: r.settle, healed: r.healed}, err
		}
	}
	return effect{site: s, settle: r.settle, healed: r.healed}, nil
}

func (r *resets) kill(ctx context.Context, i int) error {
	for batch := range slices.Chunk(r.cut[i], killBatch) {
		var filters []string
		for _, c := range batch {
			filters = append(filters, fmt.Sprintf("( sport = :%d and dport = :%d and dst %s )", c.local.Port(), c.peer.Port(), bracketed(c.peer.Addr())))
		}
		if _, err := r.site.sh(ctx, inPod, r.ids[i], "ss", "-Kt", strings.Join(filters, " or ")); err != nil {
			return err
		}
	}
	return nil
}

// bracketed is an address as ss reads it: without them a colon begins a port.
func bracketed(a netip.Addr) string {
	if a.Is4() {
		return a.String()
	}
	return "[" + a.String() + "]"
}

// connections are the established TCP connections of a container's pod.
func (s *Site) connections(ctx context.Context, id string) ([]connection, error) {
	said, err := s.sh(ctx, inPod, id, "ss", "-Htne", "state", "established")
	if err != nil {
		return nil, err
	}
	var out []connection
	for line := range strings.Lines(said) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		local, err := netip.ParseAddrPort(fields[2])
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", line, err)
		}
		peer, err := netip.ParseAddrPort(fields[3])
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", line, err)
		}
		c := connection{local: local, peer: peer}
		for _, f := range fields[4:] {
			if cookie, is := strings.CutPrefix(f, "sk:"); is {
				c.cookie = cookie
			}
		}
		out = append(out, c)
	}
	return out, nil
}

func (r *resets) settle(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		var said []string
		for i, p := range r.pods {
			now, err := r.site.connections(ctx, r.ids[i])
			if err != nil {
				return "", err
			}
			for _, c := range r.cut[i] {
				if slices.Contains(now, c) {
					return "", fmt.Errorf("pod %s still has the connection %s to %s", p.Name, c.local, c.peer)
				}
			}
			said = append(said, fmt.Sprintf("%s of pod %s gone from its socket table, it has %d now", count(len(r.cut[i]), "connection"), p.Name, len(now)))
		}
		return strings.Join(said, "; "), nil
	})
}

// addresses are those of the namespace's pods and Services.
func (s *Site) addresses(ctx context.Context) (map[netip.Addr]bool, error) {
	pods, err := s.podsIn(ctx, s.Namespace)
	if err != nil {
		return nil, err
	}
	services, err := s.Client.CoreV1().Services(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("look at the Services: %w", err)
	}
	out := map[netip.Addr]bool{}
	add := func(text string) {
		if a, err := netip.ParseAddr(text); err == nil {
			out[a] = true
		}
	}
	for _, p := range pods {
		add(p.Status.PodIP)
	}
	for _, svc := range services.Items {
		add(svc.Spec.ClusterIP)
	}
	return out, nil
}

func countPeers(all []connection, ours map[netip.Addr]bool) map[netip.Addr]int {
	out := map[netip.Addr]int{}
	for _, c := range all {
		if a := c.peer.Addr().Unmap(); ours[a] {
			out[a]++
		}
	}
	return out
}

// healed sees the pods connected with one another again. Clients from elsewhere come back when they like.
func (r *resets) healed(ctx context.Context) (string, error) {
	began := time.Now()
	return await(ctx, func(ctx context.Context) (string, error) {
		ready, err := r.site.allReady(ctx, r.owners)
		if err != nil {
			return "", err
		}
		are, were := r.again(ctx)
		said := fmt.Sprintf("%d of %s with others of the namespace are there again", are, count(were, "connection"))
		if are < were && time.Since(began) < reconnectBound {
			return "", errors.New(said)
		}
		return said + "; " + ready, nil
	})
}

// again counts the connections of before with others of the namespace, and how many of them there are now.
// A pod that has ended since had its reasons.
func (r *resets) again(ctx context.Context) (are, were int) {
	for i := range r.pods {
		now, err := r.site.connections(ctx, r.ids[i])
		if err != nil {
			continue
		}
		for a, n := range r.inner[i] {
			are, were = are+min(n, countPeers(now, map[netip.Addr]bool{a: true})[a]), were+n
		}
	}
	return are, were
}
