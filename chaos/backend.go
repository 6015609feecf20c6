package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var backendFailure = Kind{
	Name: "backendFailure",
	Proof: "paused: the kernel has every process as stopped (state T); slow: it has the main process as stopped in some of 20 looks and as running in others; " +
		"noLeader: packets between the members were dropped, and each of them says that it has no leader (etcd_server_has_leader 0)",
	Healed:  "no process is stopped, nothing stops them, no rules are left, and the workload has all replicas ready; after noLeader each member says that it has one",
	Where:   "clusters that run programs on their nodes (embedded, kind); noLeader with two members or more whose metrics can be read without a certificate, at port 2381 or 2379, as a single member is its own leader",
	Example: "backendFailure: {select: {component: etcd, all: true}, how: slow, delay: 300ms, for: 20s}",
	available: func(ctx context.Context, s *Site) error {
		if s.Do.Args.String("how") == "noLeader" {
			return needs("nftables", tryNft)(ctx, s)
		}
		_, err := s.spawner()
		return err
	},
	inject: func(ctx context.Context, s *Site) (Injection, error) {
		switch s.Do.Args.String("how") {
		case "slow":
			return scripting(slowed)(ctx, s)
		case "noLeader":
			return s.injectNoLeader(ctx)
		}
		return injectPause(ctx, s)
	},
}

const (
	// $2 is the mark, $3 for how long it is stopped at a time, in seconds; it runs for a tenth of that in
	// between. The loop is a process of its own that is found by its environment.
	addSlow = ours + apart + `p=$(main $1) || { echo it has no process >&2; exit 1; }
SHAKEDOWN_FAULT=$2 setsid sh -c 'while kill -STOP $1; do sleep $2; kill -CONT $1; sleep $3; done' sh $p $3 $(awk -v d=$3 'BEGIN {print d/10}') </dev/null >/dev/null 2>&1 &
apart $2 1`
	dropSlow   = ours + `for q in $(ours $2); do kill -KILL $q; done; for p in $(pids $1); do kill -CONT $p; done; exit 0`
	slowGone   = ours + `[ -z "$(ours $2)" ] || exit 1; for p in $(pids $1); do grep -qs '^State:.*T (stopped)' /proc/$p/status && exit 1; done; exit 0`
	countStops = `n=0; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do grep -q '^State:.*T (stopped)' /proc/$p/status && n=$((n+1)); sleep 0.05; done; echo $n`
)

// slowed stops and continues a container's main process again and again.
func slowed(_ context.Context, s *Site, _ target) (script, error) {
	delay := s.Do.Args.Duration("delay")
	if delay < 10*time.Millisecond || delay > 10*time.Second {
		return script{}, fmt.Errorf("delay %s: want 10 ms to 10 s", delay)
	}
	stops := func(ctx context.Context, t target) (n int, err error) {
		said, err := s.in(ctx, t, countStops)
		if err == nil {
			_, err = fmt.Sscan(said, &n)
		}
		return n, err
	}
	return script{
		verb: "slow down", do: addSlow, back: dropSlow, gone: slowGone, args: []string{s.mark(), fmt.Sprintf("%.3f", delay.Seconds())},
		bites: func(ctx context.Context, t target) (string, error) {
			n, err := stops(ctx, t)
			if err == nil && (n == 0 || n == 20) {
				err = fmt.Errorf("stopped in %d of 20 looks", n)
			}
			return fmt.Sprintf("stopped in %d of 20 looks within a second", n), err
		},
		quiet: func(ctx context.Context, t target) (string, error) {
			n, err := stops(ctx, t)
			if err == nil && n > 0 {
				err = fmt.Errorf("stopped in %d of 20 looks", n)
			}
			return "never stopped in 20 looks", err
		},
	}, nil
}

// injectNoLeader cuts the members off from one another, and from nobody else.
func (s *Site) injectNoLeader(ctx context.Context) (Injection, error) {
	members, err := s.Pods(ctx, "select")
	if err != nil {
		return nil, err
	}
	if len(members) < 2 {
		return nil, errors.New("one member alone is its own leader: it takes two to be without")
	}
	var addresses []string
	for i := range members {
		addresses = append(addresses, members[i].Status.PodIP)
		if _, err := s.leads(ctx, &members[i]); err != nil {
			return nil, fmt.Errorf("it would not be seen: %w", err)
		}
	}
	inner, err := filtering("cut off from its peers", func(context.Context, *Site) (func(ip string) []string, error) {
		return func(ip string) []string {
			return []string{"ip saddr " + ip + " " + among("ip daddr", addresses) + " counter drop"}
		}, nil
	})(ctx, s)
	if inner == nil {
		return nil, err
	}
	return effect{site: s, heal: inner.Heal, settle: s.leaderless(members, inner.Settle, "0"), healed: s.leaderless(members, inner.Healed, "1")}, err
}

// leaderless waits for what every member says of its leader, beside what the rules show.
func (s *Site) leaderless(members []corev1.Pod, rules func(context.Context) (string, error), want string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		saw, err := rules(ctx)
		if err != nil {
			return "", err
		}
		return await(ctx, func(ctx context.Context) (string, error) {
			var said []string
			for i := range members {
				has, err := s.leads(ctx, &members[i])
				if err != nil {
					return "", err
				}
				if has != want {
					return "", fmt.Errorf("%s says etcd_server_has_leader %s", members[i].Name, has)
				}
				said = append(said, members[i].Name)
			}
			return fmt.Sprintf("%s; %s say etcd_server_has_leader %s", saw, strings.Join(said, ", "), want), nil
		})
	}
}

var hasLeader = regexp.MustCompile(`(?m)^etcd_server_has_leader (\d)`)

// metrics are those of an etcd member, from the ports where it tells them without a certificate.
func (w World) metrics(ctx context.Context, p *corev1.Pod) (string, error) {
	if w.Cluster == nil {
		return "", errors.New("no way into the cluster's network")
	}
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DialContext: w.Cluster.DialContext, DisableKeepAlives: true}}
	var errs []error
	for _, port := range []string{"2381", "2379"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(p.Status.PodIP, port)+"/metrics", nil)
		if err != nil {
			return "", err
		}
		res, err := client.Do(req)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		text, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
		res.Body.Close()
		if err == nil && strings.Contains(string(text), "etcd_server_") {
			return string(text), nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("pod %s has no metrics of etcd: %w", p.Name, errors.Join(errs...))
}
