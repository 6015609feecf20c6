package shim

import (
	"reflect"
	"testing"
)

func TestSpecRoundTrip(t *testing.T) {
	for _, want := range []Spec{
		{},
		{Pause: true},
		{
			Proc: true, Cgroups: []string{"", "memory"}, Masked: []string{"/proc/kcore"}, ReadOnly: []string{"/proc/sys", "/x"},
			Path: "/bin/sh", Argv: []string{"sh", "-c", "", "a\nb=c"}, Env: []string{"A=1", "B="}, Dir: "/",
			UID: 1<<32 - 1, GID: 5, Groups: []uint32{0, 7}, Bounding: 1<<64 - 1, NoNewPrivs: true, OOMScoreAdj: 1000,
		},
	} {
		got, err := Decode(want.Encode())
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v %v, want %+v", got, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add((&Spec{Path: "/x", Argv: []string{"a"}, UID: 1}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(s.Encode())
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("%q: %+v, then %+v %v", b, s, again, err)
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	for _, bad := range []string{"x", "xunfinished", "u12a\x00", "u\x00", "?\x00"} {
		if s, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%q gave %+v", bad, s)
		}
	}
}
