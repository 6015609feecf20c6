package scenarios

// Entry is one entry of a timeline. It is exactly one of Wait, Do, Sequence,
// Parallel, Repeat and Random.
//
// An entry without At and After begins when the entry before it in its list
// has ended, or has begun if that one is Async; in Parallel, when the group
// begins. With After it begins when all of those have ended, with At so long
// after the timeline's start; then Delay passes, then When is waited for.
type Entry struct {
	Name   string   `json:"name"`
	At     *Span    `json:"at,omitempty"`
	After  []string `json:"after,omitempty"`
	Delay  Span     `json:"delay,omitempty"`
	When   string   `json:"when,omitempty"`   // CEL, true when it may begin
	Within Span     `json:"within,omitempty"` // bound of When
	OrElse OrElse   `json:"orElse,omitempty"` // what a When that did not come true in time means
	Async  bool     `json:"async,omitempty"`  // the next entry does not wait for the end

	Wait     *Wait   `json:"wait,omitempty"`
	Do       *Do     `json:"do,omitempty"`
	Sequence []Entry `json:"sequence,omitempty"`
	Parallel []Entry `json:"parallel,omitempty"`
	Repeat   *Repeat `json:"repeat,omitempty"`
	Random   *Random `json:"random,omitempty"`

	pos    Position
	places places
}

// places are the positions of an entry's parts that are checked late.
type places struct {
	when Position
	wait Position
	refs []Position // of After
}

// OrElse is what a condition that did not come true in time means.
type OrElse string

// The meanings; the default is inconclusive.
const (
	ElseInconclusive OrElse = "inconclusive"
	ElseFail         OrElse = "fail"
	ElseSkip         OrElse = "skip"
)

// Wait lets time pass: exactly one of Time and For.
type Wait struct {
	Time   Span   `json:"time,omitempty"`
	For    string `json:"for,omitempty"`    // CEL condition
	Within Span   `json:"within,omitempty"` // bound of For
	OrElse OrElse `json:"orElse,omitempty"` // of For
}

// Do is one action: a fault or a change, by its name in the [Vocabulary].
type Do struct {
	Action  string                `json:"action"`
	Args    Args                  `json:"args,omitempty"`
	Selects map[string]*Selection `json:"selects,omitempty"` // by parameter
	pos     Position
}

// Repeat is a sequence done Times over, beginning every Every at the earliest.
type Repeat struct {
	Times    int     `json:"times"`
	Every    Span    `json:"every,omitempty"`
	Sequence []Entry `json:"sequence"`
}

// Random is faults drawn from a list, one at a time, with gaps drawn from
// Every, until For has passed. The plan has the draws written out.
type Random struct {
	Faults []Do         `json:"faults"`
	Every  Distribution `json:"every"`
	For    Span         `json:"for"`
}
