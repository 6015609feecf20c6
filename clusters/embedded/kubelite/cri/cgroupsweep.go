package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// SweepCgroups removes the empty cgroups of a cluster that is gone; those that
// still hold processes stay, and are named in the error.
func SweepCgroups(cluster string) error {
	if cluster == "" || strings.Contains(cluster, "/") || cluster == ".." {
		return fmt.Errorf("cluster name %q", cluster)
	}
	dirs, err := filepath.Glob(filepath.Join(cgroupMount, "*", cgroupParent, cluster))
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range append(dirs, filepath.Join(cgroupMount, cgroupParent, cluster)) {
		errs = append(errs, removeCgroupTree(d, time.Now()))
		// The parent goes with the last cluster.
		unix.Rmdir(filepath.Dir(d))
	}
	return errors.Join(errs...)
}

// removeCgroupTree removes what was last touched before the given time; the
// kernel lets only that go which is empty.
func removeCgroupTree(dir string, before time.Time) error {
	st, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && st.ModTime().After(before) {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, removeCgroupTree(filepath.Join(dir, e.Name()), before))
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		errs = append(errs, &os.PathError{Op: "remove cgroup", Path: dir, Err: err})
	}
	return errors.Join(errs...)
}

// abandonedAfter is how old an empty cgroup of another cluster must be before it
// counts as left behind: a living one holds a process within milliseconds.
const abandonedAfter = time.Minute

// sweep removes what an earlier life of the node left, and what other clusters
// left that ended without a word. What cannot be removed does no harm.
func (g *cgroupRoot) sweep() {
	for _, d := range g.dirs() {
		_ = removeCgroupTree(d, time.Now())
		all := filepath.Dir(filepath.Dir(d))
		clusters, _ := os.ReadDir(all)
		for _, c := range clusters {
			if c.IsDir() {
				_ = removeCgroupTree(filepath.Join(all, c.Name()), time.Now().Add(-abandonedAfter))
			}
		}
	}
}

func (g *cgroupRoot) dirs() []string {
	var out []string
	if g.unified != "" {
		out = append(out, g.unified)
	}
	for _, d := range g.v1 {
		out = append(out, d)
	}
	return out
}

// remove takes away the node's own, empty directories.
func (g *cgroupRoot) remove() error {
	var errs []error
	for _, d := range g.dirs() {
		errs = append(errs, removeCgroupTree(d, time.Now()))
		unix.Rmdir(filepath.Dir(d))               // the cluster's, if this was its last node
		unix.Rmdir(filepath.Dir(filepath.Dir(d))) // that of all, if this was the last cluster
	}
	return errors.Join(errs...)
}
