// Command kubelite is Kubernetes in one binary, without a container engine:
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy,
// CoreDNS and kubelets as they are upstream, each a process of this binary,
// under one supervisor (kubelite init) that is the first process of fresh
// namespaces. When that process ends the kernel removes everything.
//
// It is started by `shakedown cluster up`; its subcommands are not meant to be
// typed by people, apart from the components' own help.
package main

import (
	"fmt"
	"os"
	"runtime"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/components"
)

// The supervisor and the nodes change namespaces on threads of their own, and
// what the kernel calls the process is its first thread: that one stays with
// the main goroutine, which only init can arrange.
func init() {
	if len(os.Args) > 1 && (os.Args[1] == "init" || os.Args[1] == "node") {
		runtime.LockOSThread()
	}
}

func main() {
	if err := components.Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "kubelite:", err)
		os.Exit(1)
	}
}
