package chaos

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/history"
)

var apiServerOutage = Kind{
	Name:    "apiServerOutage",
	Proof:   "a request to the API server gets no answer within 2 s",
	Healed:  "the API server answers, and every node that was Ready is so again",
	Where:   "clusters whose API server can be stopped beside them: embedded, and kind, where the kubelet starts a new one after about a minute",
	Example: "apiServerOutage: {for: 30s}",
	Slow:    "kubelets and controllers take to find the API server again",
	available: func(ctx context.Context, s *Site) error {
		_, err := s.sh(ctx, findServer+`server "$1"`, s.clusterName())
		return err
	},
	inject: injectOutage,
}

const (
	// server prints the API servers of the cluster $1. On kind, those of others are seen as well, also of embedded
	// clusters: ours are in the network namespace of a kubelet that says it is ours.
	findServer = `says() { { tr '\0' ' ' <$1/cmdline; } 2>/dev/null; }
nets() { for p in /proc/[0-9]*; do case "$(says $p)" in */kubelet\ *--provider-id=kind://*/"$1"/*) readlink $p/ns/net;; esac; done; }
server() { ours=$(nets "$1") n=0; for p in /proc/[0-9]*; do case "$(says $p)" in
kubelite\ apiserver\ *) [ -n "$` + clusters.FindContainersBy + `" ] || { echo ${p#/proc/}; return; };;
kube-apiserver\ *) case "$ours" in *"$(readlink $p/ns/net)"*) echo ${p#/proc/}; n=1;; esac;; esac; done
[ $n = 1 ] && return; echo no API server runs here >&2; return 1; }
`
	stopServer     = findServer + `p=$(server "$1") && kill -STOP $p`
	continueServer = findServer + `p=$(server "$1") && kill -CONT $p`
	serverRuns     = findServer + `p=$(server "$1") || exit 0; for q in $p; do grep -qs '^State:.*T (stopped)' /proc/$q/status && exit 1; done; exit 0`
	serverPatience = 2 * time.Second
)

func injectOutage(ctx context.Context, s *Site) (Injection, error) {
	nodes, err := s.readyNodes(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	s.hooks.Hit([]history.Target{{Kind: "apiserver", Name: "apiserver"}})
	settle := func(ctx context.Context) (string, error) {
		return await(ctx, func(ctx context.Context) (string, error) {
			err := s.ask(ctx)
			if err == nil {
				return "", fmt.Errorf("the API server still answers")
			}
			return fmt.Sprintf("%v, %s after the start", err, seconds(time.Since(began))), nil
		})
	}
	healed := func(ctx context.Context) (string, error) {
		return await(ctx, func(ctx context.Context) (string, error) {
			if err := s.ask(ctx); err != nil {
				return "", err
			}
			now, err := s.readyNodes(ctx)
			if err == nil && now < nodes {
				err = fmt.Errorf("%d of %d nodes are Ready", now, nodes)
			}
			return fmt.Sprintf("the API server answers; %d nodes Ready, %d before", now, nodes), err
		})
	}
	err = s.command(ctx, "stop the API server", shell(stopServer, s.clusterName()), shell(continueServer, s.clusterName()), shell(serverRuns, s.clusterName()))
	return effect{site: s, settle: settle, healed: healed}, err
}

// ask is one request with little patience.
func (w World) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	_, err := w.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return err
}
