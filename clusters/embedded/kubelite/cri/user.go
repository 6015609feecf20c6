package cri

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/user"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// identity is who the program runs as.
type identity struct {
	uid, gid uint32
	groups   []uint32
	home     string
}

// userSpec is what /etc/passwd is searched for: the pod's choice, else the
// image's, as "user", "user:group", or numbers.
func userSpec(img Image, sc *runtimeapi.LinuxContainerSecurityContext) string {
	spec := img.User
	switch {
	case sc.GetRunAsUser() != nil:
		spec = strconv.FormatInt(sc.RunAsUser.Value, 10)
	case sc.GetRunAsUsername() != "":
		spec = sc.RunAsUsername
	}
	return spec
}

// lookUpUser reads the image's /etc/passwd and /etc/group.
func (r root) lookUpUser(img Image, sc *runtimeapi.LinuxContainerSecurityContext) (identity, error) {
	var passwd, group io.Reader
	if f, err := r.readFile("/etc/passwd"); err == nil {
		defer f.Close()
		passwd = f
	}
	if f, err := r.readFile("/etc/group"); err == nil {
		defer f.Close()
		group = f
	}
	spec := userSpec(img, sc)
	u, err := user.GetExecUser(spec, &user.ExecUser{Home: "/"}, passwd, group)
	if err != nil {
		return identity{}, fmt.Errorf("user %q: %w", spec, err)
	}
	return withGroups(u, sc), nil
}

// withGroups adds the pod's groups to those that the image lists for the user,
// or puts them in their place if the pod's policy is Strict.
func withGroups(u *user.ExecUser, sc *runtimeapi.LinuxContainerSecurityContext) identity {
	id := identity{uid: uint32(u.Uid), gid: uint32(u.Gid), home: u.Home}
	if sc.GetRunAsGroup() != nil {
		id.gid = uint32(sc.RunAsGroup.Value)
	}
	groups := []uint32{id.gid}
	if sc.GetSupplementalGroupsPolicy() != runtimeapi.SupplementalGroupsPolicy_Strict {
		for _, g := range u.Sgids {
			groups = append(groups, uint32(g))
		}
	}
	for _, g := range sc.GetSupplementalGroups() {
		groups = append(groups, uint32(g))
	}
	slices.Sort(groups)
	id.groups = slices.Compact(groups)
	return id
}

// idMap tells which numbers exist in this user namespace.
type idMap struct {
	uids, gids []user.IDMap
	noGroups   bool // setgroups(2) is denied, as it is where an ordinary user maps himself
}

func readIDMap() (idMap, error) {
	uids, err := user.ParseIDMapFile("/proc/self/uid_map")
	if err != nil {
		return idMap{}, fmt.Errorf("user namespace: %w", err)
	}
	gids, err := user.ParseIDMapFile("/proc/self/gid_map")
	if err != nil {
		return idMap{}, fmt.Errorf("user namespace: %w", err)
	}
	setgroups, err := os.ReadFile("/proc/self/setgroups")
	if err != nil {
		return idMap{}, fmt.Errorf("user namespace: %w", err)
	}
	return idMap{uids, gids, strings.TrimSpace(string(setgroups)) == "deny"}, nil
}

// initial says whether this is the machine's own user namespace, or one as good.
func (m idMap) initial() bool {
	return len(m.uids) == 1 && m.uids[0].ID == 0 && m.uids[0].ParentID == 0 && m.uids[0].Count == 1<<32-1
}

func mapped(maps []user.IDMap, id uint32) bool {
	return slices.ContainsFunc(maps, func(m user.IDMap) bool {
		return int64(id) >= m.ID && int64(id) < m.ID+m.Count
	})
}

// check refuses an identity that the kernel could not give, and leaves out the
// list of groups where it may not be set and would say nothing new.
func (m idMap) check(id *identity) error {
	const hint = "the cluster runs as an ordinary user in a user namespace; run it as root, or with subordinate ids"
	if !mapped(m.uids, id.uid) {
		return fmt.Errorf("user %d does not exist here: %s", id.uid, hint)
	}
	if !mapped(m.gids, id.gid) {
		return fmt.Errorf("group %d does not exist here: %s", id.gid, hint)
	}
	for _, g := range id.groups {
		if !mapped(m.gids, g) {
			return fmt.Errorf("supplementary group %d does not exist here: %s", g, hint)
		}
		if m.noGroups && g != id.gid {
			return fmt.Errorf("supplementary group %d cannot be set: %s", g, hint)
		}
	}
	if m.noGroups {
		id.groups = nil
	}
	return nil
}
