// Package components maps the subcommands of kubelite to what they run. Each
// upstream component keeps its own flags: `kubelite apiserver --help` is the
// help of kube-apiserver.
package components

import (
	"fmt"
	"sort"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/boot"
	"shakedown.dev/shakedown/clusters/embedded/kubelite/node"
)

// component runs one subcommand with the arguments behind its name.
type component func(args []string) error

func table() map[string]component {
	return map[string]component{
		"init":               func([]string) error { return boot.Init() },
		"etcd":               etcd,
		"apiserver":          upstream(apiserver.NewAPIServerCommand),
		"controller-manager": upstream(controllermanager.NewControllerManagerCommand),
		"scheduler":          upstream(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"proxy":              upstream(proxy.NewProxyCommand),
		"dns":                dns,
		"cloud":              runCloud,
		"images":             serveImages,
		"node":               node.Run,
		"hollow":             node.RunHollow,
		"version":            printVersion,
	}
}

// Run runs the subcommand that argv names; argv[0] is the program.
func Run(argv []string) error {
	t := table()
	if len(argv) < 2 || t[argv[1]] == nil {
		names := make([]string, 0, len(t))
		for name := range t {
			names = append(names, name)
		}
		sort.Strings(names)
		return fmt.Errorf("usage: kubelite %s", strings.Join(names, "|"))
	}
	return t[argv[1]](argv[2:])
}

// upstream runs a component exactly as its own main does.
func upstream(command func() *cobra.Command) component {
	return func(args []string) error {
		c := command()
		c.SetArgs(args)
		return cli.RunNoErrOutput(c)
	}
}

func etcd(args []string) error {
	etcdmain.Main(append([]string{"etcd"}, args...))
	return nil
}

func printVersion([]string) error {
	fmt.Println(version.Get().GitVersion)
	return nil
}
