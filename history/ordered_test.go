package history

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCutPayloadsAreTheDecodedOnes: what the quick way takes, it reads as the long way does.
func TestCutPayloadsAreTheDecodedOnes(t *testing.T) {
	took := map[Kind]bool{}
	for _, e := range append(samples(), busy()...) {
		raw, err := json.Marshal(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		took[e.Data.Kind()] = agree(t, e.Data.Kind(), raw) || took[e.Data.Kind()]
	}
	for _, kind := range []Kind{KindOpened, KindSession, KindProbe, KindGenerator, KindAudit, KindRecording, KindPod} {
		if !took[kind] {
			t.Errorf("%s took the long way: it is of those that there are many of", kind)
		}
	}
}

// agree says whether the quick way took it.
func agree(t *testing.T, kind Kind, raw []byte) bool {
	t.Helper()
	for _, p := range payloads {
		if p.kind != kind {
			continue
		}
		got, ok := p.cut(raw, new(names))
		if !ok {
			return false
		}
		want, err := p.decode(raw)
		if err != nil {
			t.Fatalf("the quick way took %s, the long one says: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
		return true
	}
	return false
}

func TestTheQuickWayRefuses(t *testing.T) {
	for _, tt := range []struct {
		says string
		kind Kind
		raw  string
	}{
		{"keys in another order", KindSession, `{"stream":"a","id":"b"}`},
		{"a key twice", KindProbe, `{"pod":{},"pod":{},"tookNs":1}`},
		{"spaces", KindProbe, `{"pod": {},"tookNs":1}`},
		{"an unknown key", KindProbe, `{"pod":{},"tookNs":1,"mood":"good"}`},
		{"a comma too many", KindProbe, `{,"pod":{},"tookNs":1}`},
		{"a comma at the end", KindProbe, `{"pod":{},"tookNs":1,}`},
		{"an escape", KindProbe, `{"pod":{"name":"a\u0062"},"tookNs":1}`},
		{"a number that begins with zero", KindProbe, `{"pod":{},"tookNs":01}`},
		{"a number without digits", KindProbe, `{"pod":{},"tookNs":-}`},
		{"no number at all", KindGenerator, `{"cpuShare":0.2.1,"lateP99Ns":0,"lateMaxNs":0}`},
		{"more than a range's two ends", KindRecording, `{"session":"a","missingRanges":[[1,2,3]]}`},
		{"a sum that does not fit", KindSession, `{"id":"a","lines":{"sent":1,"acked":1,"sum":4294967296}}`},
		{"something behind it", KindProbe, `{"pod":{},"tookNs":1}}`},
		{"null", KindProbe, `null`},
	} {
		t.Run(tt.says, func(t *testing.T) {
			if agree(t, tt.kind, []byte(tt.raw)) {
				t.Errorf("%s was taken", tt.raw)
			}
		})
	}
}

func FuzzCutPayload(f *testing.F) {
	for _, e := range samples() {
		raw, err := json.Marshal(e.Data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(e.Data.Kind()), raw)
	}
	f.Fuzz(func(t *testing.T, kind string, raw []byte) {
		before := bytes.Clone(raw)
		agree(t, Kind(kind), raw)
		if !bytes.Equal(before, raw) {
			t.Error("reading changed the text")
		}
	})
}
