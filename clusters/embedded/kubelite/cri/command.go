package cri

import (
	"errors"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// defaultPath is what programs get when neither image nor pod sets PATH, as in
// other container runtimes.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// argv merges the pod's command and args with the image's ENTRYPOINT and CMD:
// a command replaces both, args alone replace CMD.
func argv(img Image, command, args []string) ([]string, error) {
	if len(command) == 0 {
		if len(args) == 0 {
			args = img.Cmd
		}
		command = img.Entrypoint
	}
	out := append(append([]string{}, command...), args...)
	if len(out) == 0 {
		return nil, errors.New("no command specified: the image names none and neither does the pod")
	}
	return out, nil
}

// environ merges the image's environment with the pod's, which wins; defaults
// fill what neither sets. Order of first mention is kept.
func environ(img Image, pod []*runtimeapi.KeyValue, defaults ...string) []string {
	var out []string
	at := map[string]int{}
	set := func(key, kv string) {
		if i, ok := at[key]; ok {
			out[i] = kv
			return
		}
		at[key] = len(out)
		out = append(out, kv)
	}
	for _, kv := range img.Env {
		key, _, _ := strings.Cut(kv, "=")
		set(key, kv)
	}
	for _, kv := range pod {
		set(kv.Key, kv.Key+"="+string(kv.Value))
	}
	for _, kv := range append([]string{"PATH=" + defaultPath}, defaults...) {
		if key, _, _ := strings.Cut(kv, "="); key != "" {
			if _, ok := at[key]; !ok {
				set(key, kv)
			}
		}
	}
	return out
}

func lookupEnv(env []string, key string) string {
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok && k == key {
			return v
		}
	}
	return ""
}

// workingDir is the pod's, else the image's, else the root.
func workingDir(img Image, pod string) string {
	switch {
	case pod != "":
		return pod
	case img.WorkingDir != "":
		return img.WorkingDir
	}
	return "/"
}
