// Package shim is the first process of a container: it finishes what only a
// process inside the container's PID namespace can do (mount /proc), drops
// privileges and becomes the container's program by execve.
//
// It lives in the binary it serves. Go initialises packages in the order of
// their import paths as soon as their own imports are ready, so a module whose
// path sorts first and which imports only syscall runs its init before the
// many hundred packages of Kubernetes: 2.6 ms instead of 50 ms for a 120 MB
// binary. That is the reason for the path a.shakedown.dev, for the missing
// imports, and for the one init function.
//
// A small static binary embedded in the large one was the alternative: it needs
// a build in two steps. runc's libcontainer was another: it needs cgo.
package shim
