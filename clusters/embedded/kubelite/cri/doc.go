// Package cri is the container runtime under the kubelet: a RuntimeService of the
// Container Runtime Interface that lives in the kubelet's own process.
//
// A pod is a set of namespaces kept by open files, with a veth pair, an address
// and a few files. A container is a process tree in a mount and a PID namespace
// of its own, over an overlay of its image's layers. The process that hosts the
// runtime is the first of a node's PID namespace, so nothing here survives it:
// processes, mounts, links and rules go with their namespaces, files with the
// tmpfs that holds Config.Dir. Only cgroups stay; SweepCgroups removes them.
//
// To start a container, a thread of this process unshares its mount namespace,
// enters the pod's, builds the root filesystem with the file-descriptor mount
// calls, forks, and ends. The child, package shim, does what only a member of the
// new PID namespace can, and becomes the program. To run a command in a container
// a thread enters its namespaces and forks the command itself. No helper program
// is executed on either path.
//
// What was considered instead: runc's libcontainer needs cgo for its nsenter step
// and expects cgroups and CAP_SYS_RESOURCE, neither of which is always there;
// executing nsenter, unshare and ip costs ten times as much as the work itself.
//
// The isolation is made for tests with images one trusts. Seccomp and AppArmor
// profiles are not applied (RuntimeDefault is accepted, a profile from a file
// refused), and devices are not restricted by cgroup.
//
// In a user namespace (an ordinary user) device nodes are bound from the machine,
// users and groups that have no mapping are refused by name, and an image over the
// machine's own root becomes one overlay per top-level directory.
package cri
