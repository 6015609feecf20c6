package app

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/process"
)

// environment is what the stand-in takes from environment variables: what a
// chart of the real program has no place for.
type environment struct {
	Behaviour process.Behaviour // STANDIN_BEHAVE_AS, STANDIN_VERSION
	Scale     process.Scale     // STANDIN_TIME_FACTOR
	Faults    []faults.Rule     // STANDIN_FAULTS
	TermIs    string            // STANDIN_ENTRY_SIGNAL: QUIT, or TERM
	Agents    int               // STANDIN_AGENTS: nodes in this one process
	Backoff   time.Duration     // STANDIN_TUNNEL_BACKOFF: see tunnel.PoolConfig
}

func readEnvironment(get func(string) string) (environment, error) {
	e := environment{TermIs: "TERM", Agents: 1}
	var err error
	if e.Behaviour, err = process.BehaviourByName(get("STANDIN_BEHAVE_AS")); err != nil {
		return e, fmt.Errorf("STANDIN_BEHAVE_AS: %w", err)
	}
	if v := get("STANDIN_VERSION"); v != "" {
		e.Behaviour.Version = standinVersion(v)
	}
	if v := get("STANDIN_TIME_FACTOR"); v != "" {
		factor, err := strconv.ParseFloat(v, 64)
		if err != nil || factor < 1 {
			return e, fmt.Errorf("STANDIN_TIME_FACTOR: %q is not a number from 1", v)
		}
		e.Scale = process.Scale(factor)
	}
	if e.Faults, err = faults.Parse(get("STANDIN_FAULTS")); err != nil {
		return e, fmt.Errorf("STANDIN_FAULTS: %w", err)
	}
	if v := get("STANDIN_ENTRY_SIGNAL"); v != "" {
		if v != "TERM" && v != "QUIT" {
			return e, fmt.Errorf("STANDIN_ENTRY_SIGNAL: %q, allowed are TERM, QUIT", v)
		}
		e.TermIs = v
	}
	if v := get("STANDIN_AGENTS"); v != "" {
		if e.Agents, err = strconv.Atoi(v); err != nil || e.Agents < 1 {
			return e, fmt.Errorf("STANDIN_AGENTS: %q is not a whole number from 1", v)
		}
	}
	if v := get("STANDIN_TUNNEL_BACKOFF"); v != "" {
		if e.Backoff, err = time.ParseDuration(v); err != nil || e.Backoff <= 0 {
			return e, fmt.Errorf("STANDIN_TUNNEL_BACKOFF: %q is not a duration above zero, such as 500ms", v)
		}
	}
	return e, nil
}

// standinVersion makes a version say that it is a stand-in's, as a semantic
// version's pre-release part.
func standinVersion(v string) string {
	v = strings.TrimPrefix(v, "v")
	if strings.Contains(v, "standin") {
		return v
	}
	if strings.Contains(v, "-") {
		return v + ".standin"
	}
	return v + "-standin"
}
