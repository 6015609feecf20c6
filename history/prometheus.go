package history

import "time"

// Prometheus is what a Prometheus answered to one query of the scenario.
type Prometheus struct {
	Name   string             `json:"name"`
	Query  string             `json:"query"`            // as it was asked
	From   time.Duration      `json:"fromNs"`           // the window
	Until  time.Duration      `json:"untilNs"`          // when it was evaluated
	Found  bool               `json:"found"`            // false: no data, which is not zero
	Value  float64            `json:"value"`            // if found
	Series []PrometheusSeries `json:"series,omitempty"` // over the whole run, for a plot
	Error  string             `json:"error,omitempty"`  // why there is no answer
}

// PrometheusSeries is one series of a plot: values at times of the run, in seconds.
type PrometheusSeries struct {
	Labels map[string]string `json:"labels,omitempty"`
	T      []float64         `json:"t"`
	V      []float64         `json:"v"`
}

// Kind of each payload.
func (Prometheus) Kind() Kind { return KindPrometheus }
