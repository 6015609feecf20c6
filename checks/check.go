package checks

import (
	"fmt"

	"shakedown.dev/shakedown/checks/gates"
)

// The outcomes, named here too so that callers need not import gates for them.
const (
	Inconclusive = gates.Inconclusive
	Pass         = gates.Pass
	Fail         = gates.Fail
	Error        = gates.Error
)

// Outcome of a finding, a gate or a run; the zero value is inconclusive.
type Outcome = gates.Outcome

// Finding is one thing a check has to say.
type Finding struct {
	Check   string   `json:"check"`
	Outcome Outcome  `json:"outcome"`
	Summary string   `json:"summary"`
	Details []string `json:"details,omitempty"` // at most a handful of examples
	// Note says that it passes and is still worth telling.
	Note bool `json:"note,omitempty"`
	// Numbers is what it would be by the numbers, where they are not to be trusted; it is inconclusive then.
	Numbers Outcome `json:"byTheNumbers,omitzero"`
}

// Check is one pure judgement. No finding means that it has nothing to say, which is not a pass.
type Check struct {
	Name  string
	Judge func(*Measures) []Finding
}

// run runs one check; a crash is inconclusive with the reason.
func (c Check) run(m *Measures) (out []Finding) {
	defer func() {
		if r := recover(); r != nil {
			out = []Finding{{Check: c.Name, Summary: fmt.Sprintf("check %s crashed: %v", c.Name, r)}}
		}
	}()
	out = c.Judge(m)
	for i := range out {
		out[i].Check = c.Name
		if out[i].Summary == "" {
			out[i].Summary = c.Name + ": " + out[i].Outcome.String()
		}
	}
	return out
}

// validityCheck cannot be left out: without it nothing would stand between an empty run and a pass.
const validityCheck = "validity"

// Default are the checks of every run, beside its gates.
func Default() []Check {
	return []Check{
		{validityCheck, validityFindings},
		{"sessions explained", sessionsExplained},
		{"recordings explained", recordingsExplained},
		{"nothing recorded twice", nothingTwice},
		{"lines intact", linesIntact},
		{"ready means serving", readyServes},
		{"serving means ready", servingIsReady},
		{"registered means reachable", registeredIsReachable},
		{"pods stop in time", podsStopInTime},
		{"nothing ends by itself", nothingEndsByItself},
		{"rollouts succeeded", rolloutsSucceeded},
		{"timeline kept", timelineKept},
		{"recovered", recoveredCheck},
		{"nothing leaks", leaksNoted},
		{"dead nodes are forgotten", deadNodesForgotten},
	}
}

// one makes the finding of a check that has a single thing to say.
func one(o Outcome, format string, args ...any) []Finding {
	return []Finding{{Outcome: o, Summary: fmt.Sprintf(format, args...)}}
}
