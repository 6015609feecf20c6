package cri

import (
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestArgv(t *testing.T) {
	img := Image{Entrypoint: []string{"/entry", "-e"}, Cmd: []string{"cmd"}}
	for _, row := range []struct {
		sentence            string
		img                 Image
		command, args, want []string
	}{
		{"with neither, the image's entrypoint gets the image's arguments", img, nil, nil, []string{"/entry", "-e", "cmd"}},
		{"args replace the image's arguments", img, nil, []string{"a"}, []string{"/entry", "-e", "a"}},
		{"a command replaces both", img, []string{"c"}, nil, []string{"c"}},
		{"a command with args uses nothing of the image", img, []string{"c"}, []string{"a"}, []string{"c", "a"}},
		{"an image without entrypoint runs its arguments", Image{Cmd: []string{"sh"}}, nil, nil, []string{"sh"}},
		{"args alone may be the command of an image without entrypoint", Image{}, nil, []string{"ls", "/"}, []string{"ls", "/"}},
	} {
		got, err := argv(row.img, row.command, row.args)
		if err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%s: got %q %v, want %q", row.sentence, got, err, row.want)
		}
	}
	if _, err := argv(Image{}, nil, nil); err == nil {
		t.Error("nothing to run is an error")
	}
}

func TestEnviron(t *testing.T) {
	kv := func(k, v string) *runtimeapi.KeyValue { return &runtimeapi.KeyValue{Key: k, Value: []byte(v)} }
	for _, row := range []struct {
		sentence string
		image    []string
		pod      []*runtimeapi.KeyValue
		want     []string
	}{
		{"the default path is given where nobody names one", nil, nil, []string{"PATH=" + defaultPath, "HOME=/h"}},
		{"the pod wins over the image, in the image's place", []string{"A=1", "PATH=/bin"}, []*runtimeapi.KeyValue{kv("A", "2"), kv("B", "x=y")}, []string{"A=2", "PATH=/bin", "B=x=y", "HOME=/h"}},
		{"an empty value is a value", nil, []*runtimeapi.KeyValue{kv("HOME", ""), kv("PATH", "")}, []string{"HOME=", "PATH="}},
	} {
		if got := environ(Image{Env: row.image}, row.pod, "HOME=/h"); !slices.Equal(got, row.want) {
			t.Errorf("%s: got %q, want %q", row.sentence, got, row.want)
		}
	}
}

func TestCapabilities(t *testing.T) {
	number := func(name string) uint64 { n, _ := capabilityNumber(name); return 1 << n }
	for _, row := range []struct {
		sentence   string
		add, drop  []string
		privileged bool
		want       uint64
	}{
		{"nothing asked for gives the default set", nil, nil, false, defaultCapabilities},
		{"one more, by either name", []string{"CAP_NET_ADMIN"}, nil, false, defaultCapabilities | number("NET_ADMIN")},
		{"one fewer, in small letters", nil, []string{"net_raw"}, false, defaultCapabilities &^ number("NET_RAW")},
		{"all dropped leaves none", nil, []string{"ALL"}, false, 0},
		{"all dropped and one added leaves one", []string{"NET_BIND_SERVICE"}, []string{"ALL"}, false, number("NET_BIND_SERVICE")},
		{"all added and one dropped", []string{"ALL"}, []string{"SYS_ADMIN"}, false, allCapabilities &^ number("SYS_ADMIN")},
		{"the same one added and dropped is dropped", []string{"CHOWN"}, []string{"CHOWN"}, false, defaultCapabilities &^ number("CHOWN")},
		{"privileged is everything", nil, []string{"ALL"}, true, allCapabilities},
	} {
		got, err := boundingSet(&runtimeapi.LinuxContainerSecurityContext{
			Privileged: row.privileged, Capabilities: &runtimeapi.Capability{AddCapabilities: row.add, DropCapabilities: row.drop},
		})
		if err != nil || got != row.want {
			t.Errorf("%s: got %x %v, want %x", row.sentence, got, err, row.want)
		}
	}
	if _, err := boundingSet(&runtimeapi.LinuxContainerSecurityContext{Capabilities: &runtimeapi.Capability{AddCapabilities: []string{"FLY"}}}); err == nil {
		t.Error("an unknown capability is an error")
	}
}

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]int{
		"SIGTERM": 15, "term": 15, "9": 9, " SIGQUIT ": 3, "SIGRTMIN+3": 37, "SIGRTMINPLUS3": 37, "RTMAX-1": 63, "SIGRTMAXMINUS14": 50, "SIGRTMIN": 34,
	} {
		if got, ok := parseSignal(text); !ok || int(got) != want {
			t.Errorf("%q: got %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "0", "65", "SIGNOPE", "SIGRTMIN+40", "RUNTIME_DEFAULT"} {
		if got, ok := parseSignal(text); ok {
			t.Errorf("%q: got %d, want none", text, got)
		}
	}
}

// Every signal of the CRI is known.
func TestSignalsOfTheCRI(t *testing.T) {
	for n, name := range runtimeapi.Signal_name {
		if _, ok := parseSignal(name); !ok && n != int32(runtimeapi.Signal_RUNTIME_DEFAULT) {
			t.Errorf("%s is not understood", name)
		}
	}
}
