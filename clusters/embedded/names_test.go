package embedded

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestControlNames(t *testing.T) {
	const table = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 21001 @shakedown/cluster/1000/shakedown
0000000000000000: 00000003 00000000 00000000 0001 03 21007 @shakedown/cluster/1000/shakedown
0000000000000000: 00000003 00000000 00000000 0001 03 21008 @shakedown/cluster/1000/connected-only
0000000000000000: 00000002 00000000 00010000 0001 01 21002 @shakedown/cluster/1000/dev
0000000000000000: 00000002 00000000 00010000 0001 01 21003 @shakedown/cluster/0/of-root
0000000000000000: 00000002 00000000 00010000 0001 01 21004 /run/shakedown/cluster/1000/a-file
0000000000000000: 00000003 00000000 00000000 0001 03 21005
nonsense
`
	for _, row := range []struct {
		why  string
		uid  int
		want []string
	}{
		{"listeners only, once each, in order", 1000, []string{"dev", "shakedown"}},
		{"not those of other users, nor those whose uid begins alike", 0, []string{"of-root"}},
		{"none is no error", 1, nil},
	} {
		t.Run(row.why, func(t *testing.T) {
			got, err := controlNames(strings.NewReader(table), row.uid)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzControlNames(f *testing.F) {
	f.Add("0: 2 0 00010000 0001 01 1 @shakedown/cluster/0/a")
	f.Fuzz(func(t *testing.T, table string) {
		names, _ := controlNames(strings.NewReader(table), 0)
		for _, name := range names {
			if !strings.Contains(table, ControlName(0, name)) {
				t.Errorf("%q is not in the table", name)
			}
		}
	})
}
