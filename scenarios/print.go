package scenarios

import (
	"fmt"
	"io"
	"strings"
)

// Print writes the plan as a numbered tree for a person.
func (p *Plan) Print(w io.Writer) error {
	t := &printer{}
	t.linef(0, "%s: %s", p.Scenario, p.Description)
	if p.Source != "" {
		t.linef(1, "source: %s", p.Source)
	}
	t.linef(1, "seed: %d", p.Seed)
	t.system(p)
	t.load(p)
	t.timeline(p)
	t.gates(p)
	t.blast(p)
	t.unchecked(p.Facts)
	_, err := io.WriteString(w, t.b.String())
	return err
}

type printer struct{ b strings.Builder }

func (t *printer) linef(depth int, format string, args ...any) {
	t.b.WriteString(strings.Repeat("  ", depth))
	fmt.Fprintf(&t.b, format, args...)
	t.b.WriteByte('\n')
}

func (t *printer) system(p *Plan) {
	tp := p.Teleport
	t.linef(0, "system under test")
	t.linef(1, "cluster: %d nodes", p.Cluster.Nodes)
	t.linef(1, "from: %s", tp.From)
	if tp.To != nil {
		t.linef(1, "to: %s", *tp.To)
	}
	t.linef(1, "agents: %d pods with %d each; users: %d", tp.Agents.Pods, tp.Agents.PerPod, tp.Users)
	if p.ProbesStop() {
		t.linef(1, "before the load: a proxy is stopped, to see what that does to its sessions")
	}
	r := p.Recordings
	mode := "as the chart has it"
	if r.Mode != "" {
		mode = r.Mode
	}
	t.linef(1, "recordings: %s, settle %s, %s read back", mode, r.Settle, FormatShare(r.Sample))
}

// String is the chart and its version.
func (r Release) String() string {
	if r.Version == "" {
		return r.Chart
	}
	return r.Chart + " " + r.Version
}

func (t *printer) load(p *Plan) {
	t.linef(0, "load")
	for i, s := range p.Streams {
		through := ""
		if s.Through != "" {
			through = ", through the Service"
		}
		t.linef(1, "%d. %s: %s%s", i+1, s.Name, s.Arrival, through)
		total := 0
		for _, m := range s.Mix {
			total += m.Weight
		}
		for _, m := range s.Mix {
			share := ""
			if len(s.Mix) > 1 {
				share = FormatShare(float64(m.Weight)/float64(total)) + " "
			}
			t.linef(2, "%s%s", share, m.Session)
		}
		if s.Start > 0 || s.For > 0 {
			t.linef(2, "from %s on%s", s.Start, forText(s.For))
		}
		if s.Held > 0 {
			t.linef(2, "about %d held", s.Held)
		}
	}
}

func forText(s Span) string {
	if s == 0 {
		return ""
	}
	return ", for " + s.String()
}

// String says the arrival in words.
func (a Arrival) String() string {
	if c := a.Closed; c != nil {
		text := fmt.Sprintf("closed, %d held", c.Held)
		if c.Over > 0 {
			text += ", begun over " + c.Over.String()
		}
		if !c.Think.IsZero() {
			text += ", replaced after " + c.Think.String()
		}
		return text
	}
	legs := make([]string, len(a.Open.Legs))
	for i, l := range a.Open.Legs {
		legs[i] = FormatRate(l.From)
		if l.To != l.From {
			legs[i] += " to " + FormatRate(l.To)
		}
		legs[i] += forWord(l.For)
	}
	text := fmt.Sprintf("open, %s, %s", a.Open.Distribution, strings.Join(legs, ", then "))
	if a.MaxHeld > 0 {
		text += fmt.Sprintf(", at most %d held", a.MaxHeld)
	}
	return text
}

func forWord(s Span) string {
	if s == 0 {
		return ""
	}
	return " for " + s.String()
}

// String says the session in words.
func (s Session) String() string {
	parts := []string{s.Kind + " " + s.Behaviour}
	if !s.Length.IsZero() {
		parts = append(parts, "length "+s.Length.String())
	}
	if !s.Pace.IsZero() {
		parts = append(parts, "pace "+s.Pace.String())
	}
	if s.Protocol != "" {
		parts = append(parts, "over "+s.Protocol)
	}
	return strings.Join(parts, "; ")
}

func (t *printer) timeline(p *Plan) {
	t.linef(0, "timeline, at least %s and what the actions and conditions take", FormatDuration(p.LeastTime()))
	for _, s := range p.Timeline {
		depth := 1 + strings.Count(s.Number, ".")
		t.linef(depth, "%s. %s: %s", s.Number, s.ID, s.what())
		t.linef(depth+1, "begins %s", s.begins())
	}
}

func (s Step) what() string {
	switch {
	case s.Wait != nil && s.Wait.For != "":
		return fmt.Sprintf("wait for %s, at most %s, else %s", s.Wait.For, s.Wait.Within, s.Wait.OrElse)
	case s.Wait != nil:
		return "wait " + s.Wait.Time.String()
	case s.Do != nil:
		text := s.Do.String()
		if s.Lasting {
			text += "; stays in force"
		}
		return text
	case s.Group == GroupRepeat:
		return "repeat"
	}
	if s.Group == GroupRandom {
		return "at random, one at a time"
	}
	return "in " + string(s.Group)
}

// String is the action with its targets and arguments.
func (d Do) String() string {
	var parts []string
	if whom := d.Selects["select"]; whom != nil {
		parts = append(parts, whom.String())
	}
	for _, name := range sortedKeys(d.Selects) {
		if name != "select" {
			parts = append(parts, name+" "+d.Selects[name].String())
		}
	}
	for _, name := range sortedKeys(d.Args) {
		parts = append(parts, fmt.Sprintf("%s %v", name, d.Args[name]))
	}
	return strings.TrimSpace(d.Action + " " + strings.Join(parts, "; "))
}

func (s Step) begins() string {
	var parts []string
	for _, n := range s.Needs {
		parts = append(parts, n.String())
	}
	text := strings.Join(parts, " and ")
	if s.When != "" {
		text += fmt.Sprintf(", when %s, within %s, else %s", s.When, s.Within, s.OrElse)
	}
	if s.Async {
		text += "; what follows does not wait for its end"
	}
	return text
}

// String says the need in words.
func (n Need) String() string {
	switch {
	case n.Step == "" && n.Plus == 0:
		return "at the start"
	case n.Step == "":
		return n.Plus.String() + " after the start"
	}
	text := "when " + n.Step + " has " + string(n.Point)
	if n.Plus > 0 {
		text = n.Plus.String() + " after " + n.Step + " has " + string(n.Point)
	}
	return text
}

func (t *printer) gates(p *Plan) {
	t.linef(0, "gates")
	for i, g := range p.Gates {
		t.linef(1, "%d. %s: %s", i+1, g.Name, g.That)
	}
}

func (t *printer) blast(p *Plan) {
	b, l := p.Blast, p.Limits
	t.linef(0, "blast radius, at worst")
	t.linef(1, "pods at once: %d of %d allowed%s", b.Pods, l.Pods, by(b.PodsBy))
	t.linef(1, "nodes at once: %d of %d allowed%s", b.Nodes, l.Nodes, by(b.NodesBy))
	for _, c := range sortedKeys(b.Share) {
		t.linef(1, "%s: %s of %s allowed", c, FormatShare(b.Share[c]), FormatShare(l.Share))
	}
	t.control(p.Timeline)
	if len(b.Unknown) > 0 {
		t.linef(1, "not known, since it depends on the cluster: %s", strings.Join(b.Unknown, ", "))
	}
}

func by(steps []string) string {
	if len(steps) == 0 {
		return ""
	}
	return " (" + strings.Join(steps, ", ") + ")"
}

// unchecked says what could not be checked for want of facts.
func (t *printer) unchecked(f Facts) {
	var missing []string
	if f.Nodes == 0 {
		missing = append(missing, "room on the nodes")
	}
	if len(f.Components) == 0 {
		missing = append(missing, "replicas, anti-affinity and disruption budgets of the chart")
	}
	if f.Unavailable == nil {
		missing = append(missing, "whether every fault is available")
	}
	if len(missing) > 0 {
		t.linef(0, "not checked: %s", strings.Join(missing, "; "))
	}
}
