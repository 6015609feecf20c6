package boot

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/cloud"
)

func TestReadSpecRefusesWhatItCannotDo(t *testing.T) {
	for _, row := range []struct{ why, spec, want string }{
		{"a good one is taken", `{"protocol":1,"name":"x","nodes":3,"hollowNodes":0,"imageCache":"/c","apiPort":1}`, ""},
		{"another version of the protocol", `{"protocol":2,"nodes":3}`, "protocol 2"},
		{"an unknown word", `{"protocol":1,"nodes":3,"knots":1}`, "knots"},
		{"no nodes", `{"protocol":1,"nodes":0}`, "0 nodes"},
		{"more than the addresses allow", `{"protocol":1,"nodes":251}`, "251 nodes"},
		{"a grace that is no duration", `{"protocol":1,"nodes":1,"nodeMonitorGrace":"soon"}`, "soon"},
		{"a negative grace", `{"protocol":1,"nodes":1,"nodeMonitorGrace":"-4s"}`, "-4s"},
	} {
		_, err := readSpec(strings.NewReader(row.spec))
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.why, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: error %v does not say %q", row.why, err, row.want)
		}
	}
}

func TestNodesNeverShareAddresses(t *testing.T) {
	seen := map[string]string{}
	for i := 1; i <= maxNodes; i++ {
		p := planNode(i)
		for _, a := range []string{p.name, p.link, p.address.String(), p.pods.String()} {
			if other := seen[a]; other != "" && other != p.name {
				t.Fatalf("%s and %s share %s", other, p.name, a)
			}
			seen[a] = p.name
		}
		if len(p.link) > unix.IFNAMSIZ-1 {
			t.Errorf("link name %q is longer than the kernel allows", p.link)
		}
	}
}

func TestObjectsGrantTheCloudExactlyWhatItNeeds(t *testing.T) {
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(objects), 4096)
	for {
		var r rbacv1.ClusterRole
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			t.Fatal("objects.yaml has no role system:cloud")
		} else if err != nil {
			t.Fatal(err)
		}
		if r.Kind != "ClusterRole" || r.Name != "system:cloud" {
			continue
		}
		have, want := flat(r.Rules), flat(cloud.Rules())
		if !slices.Equal(have, want) {
			t.Errorf("objects.yaml grants\n%s\ncloud.Rules asks for\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
		return
	}
}

func flat(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		for _, g := range r.APIGroups {
			for _, res := range r.Resources {
				for _, v := range r.Verbs {
					out = append(out, v+" "+g+"/"+res)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestLastWordsPreferThePanic(t *testing.T) {
	for _, row := range []struct{ why, log, want string }{
		{"the end of a log that just ends", "a\nb\nc\nd\n", ": b | c | d"},
		{"a panic and what follows it", "a\npanic: no\n\ngoroutine 1 [running]:\nmain.main()\nmore\n", ": panic: no | goroutine 1 [running]: | main.main()"},
		{"a fatal line of klog", "a\nF1130 12:00:00 fatal\nb\n", ": F1130 12:00:00 fatal | b"},
		{"an empty log says nothing", "", ""},
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(row.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastWordsOf(file); got != row.want {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

func TestFamilyListsParentsFirst(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 60 & echo; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer func() {
		for _, pid := range family(cmd.Process.Pid) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	got := family(cmd.Process.Pid)
	if len(got) != 2 || got[0] != cmd.Process.Pid {
		t.Errorf("family is %v, want the shell %d and its child", got, cmd.Process.Pid)
	}
}

func TestRequestsBringTheirDescriptors(t *testing.T) {
	a, b := socketPair(t)
	line, err := json.Marshal(request{Op: "spawn", Argv: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, _, err := a.WriteMsgUnix(append(line, '\n'), unix.UnixRights(int(null.Fd()), int(null.Fd()), int(null.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	req, fds, err := receive(b)
	if err != nil || req.Op != "spawn" || len(fds) != 3 {
		t.Fatalf("received %+v with %v (%v)", req, fds, err)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
}

func socketPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns []*net.UnixConn
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		conns = append(conns, c.(*net.UnixConn))
	}
	return conns[0], conns[1]
}

func TestGuestsNeedTheirDescriptors(t *testing.T) {
	for _, row := range []struct {
		why   string
		req   request
		files int
		want  string
	}{
		{"three streams without a terminal", request{Argv: []string{"true"}}, 3, ""},
		{"one terminal", request{Argv: []string{"true"}, TTY: true}, 1, ""},
		{"a terminal and more", request{Argv: []string{"true"}, TTY: true}, 3, "want 1"},
		{"nothing to run", request{}, 3, "no program"},
	} {
		_, err := guest(row.req, make([]*os.File, row.files))
		if got := text(err); row.want == "" && got != "" || !strings.Contains(got, row.want) {
			t.Errorf("%s: error %q, want %q", row.why, got, row.want)
		}
	}
}
