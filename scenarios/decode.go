package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Options of decoding a scenario.
type Options struct {
	// Words are the actions that can be carried out; nil is [Words].
	Words Vocabulary
	// Set are overrides "path=value", applied to the tree before it is decoded.
	Set []string
	// Files is where files that a scenario names are looked up; nil is the
	// directory of the scenario.
	Files fs.FS
	// Expr checks an expression; nil checks nothing. See [ExprCheck].
	Expr ExprCheck
	// Sessions says whether the load engine can do such a session; nil: all.
	Sessions func(Session) error
}

// ExprCheck type-checks a CEL expression of a gate or a condition and returns
// what is wrong with it. It is handed in, since gates belong to package checks.
type ExprCheck func(place ExprPlace, expr string, names Names) []ExprProblem

// ExprPlace is where an expression stands, which decides what it may use.
type ExprPlace string

// The places: gates look back over the whole history, conditions at the run as
// it stands.
const (
	PlaceGate      ExprPlace = "gate"
	PlaceCondition ExprPlace = "condition"
)

// Names are the names that expressions may mention.
type Names struct {
	Entries []string // of the timeline, for during(…) and after(…)
	Streams []string // of the load
	Kinds   []string // of the sessions in it
	Queries []string // of the Prometheus
}

// ExprProblem is one thing wrong with an expression.
type ExprProblem struct {
	Line, Column int // in the expression, from 1; 0: not known
	Message      string
	Nearest      string   // what was probably meant
	Allowed      []string // what may stand there
	Hint         string   // other help
}

// Read decodes the scenario in a file.
func Read(path string, opts Options) (*Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	if opts.Files == nil {
		opts.Files = os.DirFS(filepath.Dir(path))
	}
	return Decode(path, text, opts)
}

// Decode decodes a scenario, fills in defaults and checks all that can be
// checked without a cluster. The error is [Problems] with everything at once.
func Decode(file string, text []byte, opts Options) (*Scenario, error) {
	if opts.Words == nil {
		opts.Words = Words()
	}
	root, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	d := &decoder{file: file, opts: opts, origin: map[*yaml.Node]string{}}
	d.override(root)
	s := defaults(file, opts.Words)
	d.value(root, d.scenario(s))
	if len(d.problems) == 0 {
		d.check(s)
		d.expressions(s, s.Names())
	} else {
		d.expressions(s, namesAnywhere(root))
	}
	if err := d.problems.orNil(); err != nil {
		return nil, err
	}
	return s, nil
}

// yamlLine finds the line number in an error of the YAML parser, which has no
// better way to tell it.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func parse(file string, text []byte) (*yaml.Node, error) {
	var root, more yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(text))
	err := in.Decode(&root)
	if errors.Is(err, io.EOF) || (err == nil && root.Kind == 0) {
		return nil, Problems{{File: file, Message: "is empty"}}
	}
	if err != nil {
		return nil, Problems{syntaxProblem(file, err)}
	}
	if err := in.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, Problems{{File: file, Position: Position{Line: more.Line, Column: 1}, Message: "one file is one scenario: there is more than one document"}}
	}
	return root.Content[0], nil
}

func syntaxProblem(file string, err error) Problem {
	p := Problem{File: file, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Column = 1
		p.Message = strings.TrimPrefix(err.Error(), m[0])
	}
	p.Message = "not YAML: " + p.Message
	return p
}

func (d *decoder) scenario(s *Scenario) read {
	return func(n *yaml.Node) {
		var version, kind string
		d.object(n, "a scenario",
			required("apiVersion", d.choice(&version, APIVersion)),
			required("kind", d.choice(&kind, "Scenario")),
			required("metadata", func(n *yaml.Node) {
				d.object(n, "metadata",
					required("name", d.name(&s.Name)),
					required("description", d.text(&s.Description)),
					optional("source", d.text(&s.Source)))
			}),
			required("spec", d.spec(s)))
	}
}

func (d *decoder) spec(s *Scenario) read {
	return func(n *yaml.Node) {
		d.object(n, "spec",
			optional("cluster", func(n *yaml.Node) {
				d.object(n, "cluster", optional("nodes", d.count(&s.Cluster.Nodes, 1, 1000)))
			}),
			required("teleport", d.teleport(&s.Teleport)),
			required("load", d.list("stream", func(_ int, n *yaml.Node) {
				s.Load = append(s.Load, d.stream(n))
			})),
			required("timeline", d.entries(&s.Timeline)),
			required("expect", d.list("gate", func(_ int, n *yaml.Node) {
				s.Expect = append(s.Expect, d.gate(n))
			})),
			optional("limits", d.limits(&s.Limits)),
			optional("validity", d.validity(&s.Validity)),
			optional("recordings", d.recordings(&s.Recordings)),
			optional("prometheus", d.prometheus(&s.Prometheus)))
	}
}

func (d *decoder) teleport(t *Teleport) read {
	return func(n *yaml.Node) {
		d.object(n, "teleport",
			optional("release", d.name(&t.Release)),
			optional("namespace", d.name(&t.Namespace)),
			required("from", func(n *yaml.Node) { d.release(n, &t.From) }),
			optional("to", func(n *yaml.Node) {
				t.To = &Release{}
				d.release(n, t.To)
			}),
			optional("users", d.count(&t.Users, 1, 1000)),
			optional("probe", d.choice(&t.Probe, ProbeAuto, ProbeAlways, ProbeNever)),
			optional("agents", func(n *yaml.Node) {
				d.object(n, "agents",
					optional("pods", d.count(&t.Agents.Pods, 1, 10_000)),
					optional("perPod", d.count(&t.Agents.PerPod, 1, 200)))
			}))
	}
}

func (d *decoder) release(n *yaml.Node, r *Release) {
	r.pos = d.position(n)
	d.object(n, "a release",
		optional("chart", d.text(&r.Chart)),
		optional("version", d.text(&r.Version)),
		optional("values", d.tree(&r.Values)))
}

func (d *decoder) gate(n *yaml.Node) Gate {
	var g Gate
	d.object(n, "a gate",
		required("name", d.text(&g.Name)),
		required("that", d.expression(&g.That, &g.pos)))
	return g
}

func (d *decoder) limits(l *Limits) read {
	return func(n *yaml.Node) {
		l.pos = d.position(n)
		d.object(n, "limits",
			optional("pods", d.count(&l.Pods, 0, 0)),
			optional("nodes", d.count(&l.Nodes, 0, 0)),
			optional("share", scalar(d, &l.Share, ParseShare)))
	}
}

func (d *decoder) validity(v *Validity) read {
	return func(n *yaml.Node) {
		d.object(n, "validity",
			optional("lateP99", d.positive(&v.LateP99)),
			optional("cpu", scalar(d, &v.CPU, ParseShare)),
			optional("offered", scalar(d, &v.Offered, ParseShare)),
			optional("stall", d.positive(&v.Stall)),
			optional("gap", d.positive(&v.Gap)),
			optional("clockJump", d.positive(&v.ClockJump)),
			optional("probe", d.positive(&v.Probe)),
			optional("control", d.count(&v.Control, 1, 100)))
	}
}

func (d *decoder) recordings(r *Recordings) read {
	return func(n *yaml.Node) {
		d.object(n, "recordings",
			optional("mode", d.choice(&r.Mode, "node", "node-sync", "proxy", "proxy-sync", "off")),
			optional("settle", d.positive(&r.Settle)),
			optional("late", d.positive(&r.Late)),
			optional("sample", scalar(d, &r.Sample, ParseShare)))
	}
}
