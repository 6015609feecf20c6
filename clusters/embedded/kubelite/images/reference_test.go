package images

import (
	"strings"
	"testing"
)

func TestTableFindsTheClosestPattern(t *testing.T) {
	var tab table
	for _, row := range [][2]string{
		{"*", "registry"},
		{"public.ecr.aws/*", "oci:/glob"},
		{"public.ecr.aws/team/*", "oci:/longer"},
		{"public.ecr.aws/team/app", "oci:/name"},
		{"public.ecr.aws/team/app:1", "oci:/exact"},
		{"localhost:5000/app", "oci:/port"},
		{"busybox", "oci:/busybox"},
		{"*-distroless:*", "oci:/infix"},
		{"twice", "oci:/first"},
		{"twice", "oci:/second"},
	} {
		if err := tab.add(row[0], row[1]); err != nil {
			t.Fatal(err)
		}
	}
	digest := "@sha256:" + strings.Repeat("a", 64)
	for _, tt := range []struct{ sentence, name, want string }{
		{"an exact name beats all", "public.ecr.aws/team/app:1", "oci:/exact"},
		{"a digest beside the tag does not matter to it", "public.ecr.aws/team/app:1" + digest, "oci:/exact"},
		{"a name without tag is any tag", "public.ecr.aws/team/app:2", "oci:/name"},
		{"or a digest", "public.ecr.aws/team/app" + digest, "oci:/name"},
		{"the longer glob beats the shorter, slashes and all", "public.ecr.aws/team/x/y:1", "oci:/longer"},
		{"and that beats *", "public.ecr.aws/x", "oci:/glob"},
		{"a port is no tag", "localhost:5000/app", "oci:/port"},
		{"a short name is docker.io's", "docker.io/library/busybox:1", "oci:/busybox"},
		{"a glob sees the tag", "quay.io/app-distroless:3", "oci:/infix"},
		{"of two alike the last counts", "twice", "oci:/second"},
		{"what nothing else matches goes to *", "other/thing", "registry"},
	} {
		r, err := parseRef(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := tab.find(r); !ok || got.String() != tt.want {
			t.Errorf("%s: %s comes from %s, want %s", tt.sentence, tt.name, got, tt.want)
		}
	}
}

func TestTableRefusesWhatItCannotMean(t *testing.T) {
	for _, tt := range []struct{ sentence, name, source, want string }{
		{"an unknown kind lists those there are", "a", "docker:x", `image source "docker:x": want registry, registry:NAME, oci:DIR, archive:FILE, host:DIR or builtin:NAME`},
		{"a kind without its argument", "a", "oci:", "nothing after the colon"},
		{"a name that is none", "UPPER", "registry", `image pattern "UPPER": `},
		{"another kind of pattern", "a[bc]*", "registry", "only * is special"},
	} {
		var tab table
		if err := tab.add(tt.name, tt.source); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q in it", tt.sentence, err, tt.want)
		}
	}
}

func TestGlobMatch(t *testing.T) {
	for _, tt := range []struct {
		glob, s string
		want    bool
	}{
		{"*", "", true}, {"a*", "a", true}, {"a*a", "a", false}, {"a*a", "aba", true}, {"a*b*c", "axxbyyc", true},
		{"a*b*c", "acb", false}, {"*ab*b", "ab", false}, {"**", "x", true},
	} {
		if got := globMatch(tt.glob, tt.s); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.glob, tt.s, got)
		}
	}
}
