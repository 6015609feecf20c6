package chaos

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history"
)

var apiServerOutage = Kind{
	Name:    "apiServerOutage",
	Proof:   "a request to the API server gets no answer within 2 s",
	Healed:  "the API server answers, and every node that was Ready is so again",
	Where:   "clusters whose API server can be stopped beside them: embedded",
	Example: "apiServerOutage: {for: 30s}",
	Slow:    "kubelets and controllers take to find the API server again",
	available: func(ctx context.Context, s *Site) error {
		_, err := s.sh(ctx, findServer+`server`)
		return err
	},
	inject: injectOutage,
}

const (
	findServer = `server() { for p in /proc/[0-9]*; do case "$(tr '\0' ' ' <$p/cmdline 2>/dev/null)" in kubelite\ apiserver\ *) echo ${p#/proc/}; return;; esac; done; echo no API server runs here >&2; return 1; }
`
	stopServer     = findServer + `p=$(server) && kill -STOP $p`
	continueServer = findServer + `p=$(server) && kill -CONT $p`
	serverRuns     = findServer + `p=$(server) || exit 0; grep -q '^State:.*T (stopped)' /proc/$p/status && exit 1; exit 0`
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
	err = s.command(ctx, "stop the API server", shell(stopServer), shell(continueServer), shell(serverRuns))
	return effect{site: s, settle: settle, healed: healed}, err
}

// ask is one request with little patience.
func (w World) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	_, err := w.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return err
}
