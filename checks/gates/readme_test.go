package gates

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeNamesEveryWord: what can be written in a gate or condition stands in the reference.
func TestReadmeNamesEveryWord(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, v := range []vocabulary{gateVocabulary(names), conditionVocabulary()} {
		for name := range v.variables {
			if !strings.HasPrefix(name, "@") && !strings.Contains(text, "`"+name) {
				t.Errorf("%s is not in README.md", name)
			}
		}
		for _, o := range v.objects {
			for _, f := range o.order {
				if !strings.Contains(text, "`"+f+"`") && !strings.Contains(text, "."+f) {
					t.Errorf("%s of %s is not in README.md", f, o.typ.TypeName())
				}
			}
			for m := range o.methods {
				if !strings.Contains(text, m+"(") {
					t.Errorf("%s() of %s is not in README.md", m, o.typ.TypeName())
				}
			}
		}
	}
}

// TestReadmeExamples: the examples are gates.
func TestReadmeExamples(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, line := range strings.Split(string(b), "\n") {
		if expr, ok := strings.CutPrefix(line, "    "); ok {
			n++
			if _, err := Compile([]Gate{{Name: "example", Expr: expr}}, names); err != nil {
				t.Error(err)
			}
		}
	}
	if n == 0 {
		t.Error("no examples")
	}
}
