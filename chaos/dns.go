package chaos

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history"
)

var dnsFailure = Kind{
	Name: "dnsFailure",
	Proof: "the cluster's DNS, asked from inside, answers names that it knew before with NXDOMAIN, with SERVFAIL, not within 2 s, or (stale) with the addresses " +
		"of before and a TTL of 77 s, which is ours",
	Healed: "the cluster's DNS knows the names again",
	Where: "clusters whose DNS is CoreDNS: embedded, at once; others by the ConfigMap coredns of kube-system if it has the plugin reload, which takes up to two minutes. " +
		"Clients and their resolvers keep what they have heard before until its TTL is over",
	Example:   `dnsFailure: {names: ["teleport-auth*"], answer: nxdomain, for: 30s}`,
	Slow:      "the DNS takes to learn it: no time on embedded, up to two minutes where its plugin reload has to",
	available: func(ctx context.Context, s *Site) error { return s.resolver(ctx).available(ctx) },
	inject:    injectDNS,
}

const (
	clusterDomain = "cluster.local"
	staleTTL      = 77 // seconds, by which an answer of ours is known
	dnsPatience   = 2 * time.Second
	asked         = 4 // names that a proof asks for, at most
)

// spoilt is a DNS that answers some names wrongly.
type spoilt struct {
	site   *Site
	answer string
	before map[string][]netip.Addr // what the names that are asked for were
}

func injectDNS(ctx context.Context, s *Site) (Injection, error) {
	names := s.qualified(s.Do.Args.Strings("names"))
	d := &spoilt{site: s, answer: s.Do.Args.String("answer"), before: map[string][]netip.Addr{}}
	if err := d.know(ctx, names); err != nil {
		return nil, err
	}
	var targets []history.Target
	for _, name := range sortedKeys(d.before) {
		targets = append(targets, history.Target{Kind: "name", Name: name, Why: "one of " + strings.Join(names, ", ")})
	}
	s.hooks.Hit(targets)
	e := effect{site: s, settle: d.settle, healed: d.healed}
	return e, s.resolver(ctx).change(ctx, d.block(names))
}

// qualified gives names without a dot the domain of Teleport's namespace.
func (s *Site) qualified(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.TrimSuffix(n, ".")
		if !strings.Contains(out[i], ".") {
			out[i] += "." + s.Namespace + ".svc." + clusterDomain
		}
	}
	return out
}

func pattern(name string) string {
	parts := strings.Split(name, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return strings.Join(parts, ".*")
}

// anyOf is the expression that the names match, as queries have them: with a dot at the end.
func anyOf(names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, pattern(n))
	}
	return `(?i)^(` + strings.Join(all, "|") + `)\.$`
}

// know finds names that resolve now and that the fault is about. None is an empty selection.
func (d *spoilt) know(ctx context.Context, names []string) error {
	candidates := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.Contains(n, "*") })
	services, err := d.site.Client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("look at the Services: %w", err)
	}
	match, err := regexp.Compile(anyOf(names))
	if err != nil {
		return err
	}
	for _, svc := range services.Items {
		if n := svc.Name + "." + svc.Namespace + ".svc." + clusterDomain; match.MatchString(n+".") && !slices.Contains(candidates, n) {
			candidates = append(candidates, n)
		}
	}
	slices.Sort(candidates)
	for _, name := range candidates {
		if len(d.before) == asked && d.answer != "stale" {
			break
		}
		if got, err := d.site.resolver(ctx).ask(ctx, name); err == nil && len(got.addresses) > 0 {
			d.before[name] = got.addresses
		}
	}
	if len(d.before) == 0 {
		return fmt.Errorf("%w: none of %s resolves now", ErrEmpty, strings.Join(names, ", "))
	}
	return nil
}

// block is a server of CoreDNS for these names alone (plugin view), in front of the one that knows.
func (d *spoilt) block(names []string) string {
	var does string
	switch d.answer {
	case "timeout":
		does = "acl {\ndrop\n}"
	case "stale":
		var b strings.Builder
		b.WriteString("hosts /dev/null {\n")
		for _, name := range sortedKeys(d.before) {
			for _, a := range d.before[name] {
				fmt.Fprintf(&b, "%s %s\n", a, name)
			}
		}
		fmt.Fprintf(&b, "ttl %d\n}", staleTTL)
		does, names = b.String(), sortedKeys(d.before)
	default:
		does = "template ANY ANY {\nrcode " + strings.ToUpper(d.answer) + "\n}"
	}
	return fmt.Sprintf("view %s {\nexpr name() matches '%s'\n}\n%s\n", d.site.mark(), strings.ReplaceAll(anyOf(names), `\`, `\\`), does)
}

func (d *spoilt) settle(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		var said []string
		for _, name := range sortedKeys(d.before) {
			got, err := d.site.resolver(ctx).ask(ctx, name)
			if got.as(err) != d.answer {
				return "", fmt.Errorf("%s: %s, want %s", name, got.words(err), d.answer)
			}
			said = append(said, fmt.Sprintf("%s: %s, before %s", name, got.words(err), list(d.before[name])))
		}
		return strings.Join(said, "; "), nil
	})
}

func (d *spoilt) healed(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		var said []string
		for _, name := range sortedKeys(d.before) {
			got, err := d.site.resolver(ctx).ask(ctx, name)
			if got.as(err) != "" {
				return "", fmt.Errorf("%s: %s", name, got.words(err))
			}
			said = append(said, name+": "+got.words(nil))
		}
		return strings.Join(said, "; "), nil
	})
}

// resolver is the cluster's own DNS.
type resolver interface {
	available(ctx context.Context) error
	ask(ctx context.Context, name string) (answer, error)
	// change puts a block in front of the rest of the configuration.
	change(ctx context.Context, block string) error
}

// resolver is how it is reached here: a process of the cluster's own, or by the API alone.
func (s *Site) resolver(ctx context.Context) resolver {
	if s.dns == nil {
		s.dns = mappedDNS{s}
		if _, err := s.spawner(); err == nil {
			if facts, err := s.Cluster.Facts(ctx); err == nil && facts.Provider == "embedded" {
				s.dns = besideDNS{s}
			}
		}
	}
	return s.dns
}

func list(all []netip.Addr) string {
	var out []string
	for _, a := range all {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

// besideDNS is a CoreDNS that is a process of the cluster's own.
type besideDNS struct{ *Site }

const (
	findDNS = `dns() { for p in /proc/[0-9]*; do case "$(tr '\0' ' ' <$p/cmdline 2>/dev/null)" in kubelite\ dns\ *) echo ${p#/proc/}; return;; esac; done; echo no DNS runs here >&2; return 1; }
p=$(dns) || exit 1; f=$(tr '\0' '\n' </proc/$p/cmdline | grep -A1 '^-conf$' | tail -n 1)
`
	// SIGUSR1 has CoreDNS read its configuration again. An old one stays if the new one is wrong.
	addDNS  = findDNS + `listen=$(grep -m1 -E '^ *bind ' $f); { printf '# %s begin\n.:53 {\n%s\n%s}\n# %s end\n' "$1" "$listen" "$2" "$1"; cat $f; } >$f.new && mv $f.new $f && kill -USR1 $p`
	dropDNS = findDNS + `sed -i "/^# $1 begin/,/^# $1 end/d" $f && kill -USR1 $p`
	dnsGone = findDNS + `grep -q "^# $1 " $f && exit 1; exit 0`
)

func (d besideDNS) available(ctx context.Context) error {
	_, err := d.sh(ctx, findDNS)
	return err
}

func (d besideDNS) change(ctx context.Context, block string) error {
	return d.command(ctx, "spoil the cluster's DNS", shell(addDNS, d.mark(), block), shell(dropDNS, d.mark()), shell(dnsGone, d.mark()))
}

func (d besideDNS) ask(ctx context.Context, name string) (answer, error) {
	facts, err := d.Cluster.Facts(ctx)
	if err != nil {
		return answer{}, err
	}
	return d.query(ctx, facts.DNS, name)
}

// serviceOfDNS is where the API says that the DNS is.
func (w World) serviceOfDNS(ctx context.Context) (*corev1.Service, error) {
	return w.Client.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
}
