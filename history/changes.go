package history

// RolloutStage is a step of a rollout.
type RolloutStage string

// The stages: one start, one end. HelmCalled and HelmReturned may come several
// times (a retry, a rollback); Progress comes whenever a count changes. The
// end comes when every replica is updated and ready and the old pods are gone,
// which is later than Helm's return.
const (
	RolloutStart        RolloutStage = "start"
	RolloutHelmCalled   RolloutStage = "helm-called"
	RolloutHelmReturned RolloutStage = "helm-returned"
	RolloutProgress     RolloutStage = "progress"
	RolloutEnd          RolloutStage = "end"
)

// Rollout is one step of a rollout; Event.Outcome of its end says how it went.
type Rollout struct {
	ID       string       `json:"id"`    // unique in the run
	Entry    string       `json:"entry"` // timeline entry that did it
	Verb     string       `json:"verb"`  // install, upgrade, rollback, restart, scale
	Stage    RolloutStage `json:"stage"`
	Release  string       `json:"release,omitempty"`
	From     string       `json:"from,omitempty"` // chart version
	To       string       `json:"to,omitempty"`
	Revision int          `json:"revision,omitempty"` // Helm's revision number

	Component    string `json:"component,omitempty"` // progress: whose counts these are
	Updated      int    `json:"updated,omitempty"`   // pods of the new revision
	UpdatedReady int    `json:"updatedReady,omitempty"`
	Old          int    `json:"old,omitempty"` // pods of older revisions, terminating ones too
	Total        int    `json:"total,omitempty"`
	// Hash is the new template hash: pods of another revision are old.
	Hash  string `json:"hash,omitempty"`
	Error string `json:"error,omitempty"`
}

// FaultStage is a step in the life of a fault.
type FaultStage string

// The stages. A fault that counts goes planned, inject, bit, heal, healed.
// Everything else makes the run inconclusive: not available here, nothing
// selected, inject failed, not bitten within its bound, not healed.
const (
	FaultPlanned     FaultStage = "planned"
	FaultInject      FaultStage = "inject"
	FaultBit         FaultStage = "bit"
	FaultHeal        FaultStage = "heal"
	FaultHealed      FaultStage = "healed"
	FaultUnavailable FaultStage = "unavailable"
	FaultEmpty       FaultStage = "empty" // its selector selected nothing
	FaultFailed      FaultStage = "failed"
	FaultNotBitten   FaultStage = "not-bitten"
	FaultNotHealed   FaultStage = "not-healed"
)

// Fault is one step of one fault.
type Fault struct {
	ID       string            `json:"id"`    // unique in the run: entry, or entry#round
	Name     string            `json:"name"`  // podDelete, nodeDrain, …
	Entry    string            `json:"entry"` // timeline entry that did it
	Stage    FaultStage        `json:"stage"`
	Selector string            `json:"selector,omitempty"` // as written
	Params   map[string]string `json:"params,omitempty"`
	Targets  []Target          `json:"targets,omitempty"` // from inject on
	// Proof is the observation that shows that it bit or healed; never the
	// success of our own call.
	Proof  string `json:"proof,omitempty"`
	Detail string `json:"detail,omitempty"` // such as what blocked a drain, and how long
	Error  string `json:"error,omitempty"`
}

// Target is one thing a fault acts on.
type Target struct {
	Kind string `json:"kind"` // pod, node, container, deployment, component, apiserver, …
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
	Pod  PodRef `json:"pod,omitzero"` // for pods and containers
	// Why says how it came to be chosen, such as "proxy of the old revision, 1 of 2".
	Why string `json:"why,omitempty"`
}

// Undo is the result of undoing one change.
type Undo struct {
	ID      string `json:"id"` // number in undo.jsonl
	What    string `json:"what"`
	Tries   int    `json:"tries"`
	Checked string `json:"checked,omitempty"` // how it was verified
	Error   string `json:"error,omitempty"`
}

// Kind of each payload.
func (Rollout) Kind() Kind { return KindRollout }
func (Fault) Kind() Kind   { return KindFault }
func (Undo) Kind() Kind    { return KindUndo }
