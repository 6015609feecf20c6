package cri

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/user"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestLookUpUser(t *testing.T) {
	r, dir := newRoot(t)
	must(t, os.MkdirAll(filepath.Join(dir, "etc"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\napp:x:70:71::/srv/app:/bin/sh\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "etc/group"), []byte("app:x:71:\nlogs:x:72:app\n"), 0o644))
	for _, row := range []struct {
		sentence string
		image    string
		sc       *runtimeapi.LinuxContainerSecurityContext
		want     identity
		err      string
	}{
		{"nobody named is root", "", nil, identity{0, 0, []uint32{0}, "/root"}, ""},
		{"the image's user, with its groups", "app", nil, identity{70, 71, []uint32{71, 72}, "/srv/app"}, ""},
		{"the image's user and group", "app:72", nil, identity{70, 72, []uint32{72}, "/srv/app"}, ""},
		{"a number that passwd knows has its home", "70", nil, identity{70, 71, []uint32{71, 72}, "/srv/app"}, ""},
		{"a number that nobody knows", "1234", nil, identity{1234, 0, []uint32{0}, "/"}, ""},
		{"the pod's user wins", "app", &runtimeapi.LinuxContainerSecurityContext{RunAsUser: int64Value(5), RunAsGroup: int64Value(6)}, identity{5, 6, []uint32{6}, "/"}, ""},
		{"further groups are added", "app", &runtimeapi.LinuxContainerSecurityContext{SupplementalGroups: []int64{9, 72}}, identity{70, 71, []uint32{9, 71, 72}, "/srv/app"}, ""},
		{"or put in place of the image's, if strict", "app", &runtimeapi.LinuxContainerSecurityContext{SupplementalGroups: []int64{9}, SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict}, identity{70, 71, []uint32{9, 71}, "/srv/app"}, ""},
		{"an unknown name", "who", nil, identity{}, `user "who"`},
	} {
		got, err := r.lookUpUser(Image{User: row.image}, row.sc)
		if row.err != "" {
			if err == nil || !strings.Contains(err.Error(), row.err) {
				t.Errorf("%s: %v", row.sentence, err)
			}
			continue
		}
		if err != nil || got.uid != row.want.uid || got.gid != row.want.gid || got.home != row.want.home || !slices.Equal(got.groups, row.want.groups) {
			t.Errorf("%s: got %+v %v, want %+v", row.sentence, got, err, row.want)
		}
	}
}

func TestIDMapCheck(t *testing.T) {
	all := idMap{uids: []user.IDMap{{ID: 0, ParentID: 0, Count: 1<<32 - 1}}, gids: []user.IDMap{{ID: 0, ParentID: 0, Count: 1<<32 - 1}}}
	one := idMap{uids: []user.IDMap{{ID: 0, ParentID: 1000, Count: 1}}, gids: []user.IDMap{{ID: 0, ParentID: 1000, Count: 1}}, noGroups: true}
	for _, row := range []struct {
		sentence string
		m        idMap
		id       identity
		err      string
	}{
		{"as root everyone exists", all, identity{uid: 65534, gid: 7, groups: []uint32{1, 2}}, ""},
		{"a single user is himself", one, identity{groups: []uint32{0}}, ""},
		{"and nobody else", one, identity{uid: 1}, "user 1 does not exist here"},
		{"nor of another group", one, identity{gid: 1}, "group 1 does not exist here"},
		{"nor of a further one", one, identity{groups: []uint32{0, 2000}}, "supplementary group 2000 does not exist here"},
	} {
		err := row.m.check(&row.id)
		if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: %v", row.sentence, err)
		}
		if err == nil && row.m.noGroups && row.id.groups != nil {
			t.Errorf("%s: groups %v cannot be set", row.sentence, row.id.groups)
		}
	}
	if !all.initial() || one.initial() {
		t.Error("only the map of all ids is the machine's own")
	}
}
