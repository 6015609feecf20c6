// Package undo remembers what a run changes in a cluster, so that it can be undone whatever happens to
// the run: intents are written and synced before each change, to a file in the run folder and to a
// ConfigMap in the cluster, and either is enough to heal from.
//
// What undoing a change means is data (Kind, Object, Prior), not code of the fault that made it: a dead
// run's changes must be undone by another process, perhaps of a later version.
package undo

import (
	"encoding/json"
	"fmt"
	"time"
)

// RunLabel marks every object and change of ours with the run's ID.
const RunLabel = "shakedown.dev/run"

// Kind says how a change is undone, and what Prior holds.
type Kind string

// The kinds of changes.
const (
	NodeCordoned    Kind = "nodeCordoned"    // uncordon, if the cordon is the run's. Prior: nothing
	NodeTainted     Kind = "nodeTainted"     // take the taint away. Prior: the taint
	NodeKilled      Kind = "nodeKilled"      // start the node again. Prior: nothing
	NodePaused      Kind = "nodePaused"      // resume it. Prior: nothing
	NodePartitioned Kind = "nodePartitioned" // join it again. Prior: nothing
	PodsRemoved     Kind = "podsRemoved"     // nothing to do but to see the controller bring them back. Prior: nothing
	ObjectCreated   Kind = "objectCreated"   // delete it, if its run label is the run's. Prior: nothing
	ObjectChanged   Kind = "objectChanged"   // apply a patch. Prior: Patched
	CommandRun      Kind = "commandRun"      // run a command in the cluster's network. Prior: Command
)

// Change is one thing that is about to be changed, with all that undoing needs.
type Change struct {
	Kind   Kind            `json:"kind"`
	What   string          `json:"what"`            // "cordon node2"
	Fault  string          `json:"fault,omitempty"` // ID of the fault that does it
	Object Object          `json:"object"`
	Prior  json.RawMessage `json:"prior,omitempty"`
}

// Object is what is changed.
type Object struct {
	// Resource is group/version/resource as kubectl api-resources has it, such as apps/v1/deployments or
	// v1/nodes.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// UID tells it from another of the same name; empty if it does not exist yet.
	UID string `json:"uid,omitempty"`
}

func (o Object) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// State is where a change stands.
type State string

// The states, in the order of a change's life. An intent without a result may or may not have been
// carried out: it is undone all the same.
const (
	Intended State = "intent"
	Made     State = "made"     // the change returned, perhaps with an error that leaves doubt
	Undone   State = "undone"   // and verified
	Unhealed State = "unhealed" // undoing was tried and did not work; it may be tried again
)

// Entry is a change as the log has it.
type Entry struct {
	ID     int       `json:"id"` // from 1, in the order of intents
	Run    string    `json:"run"`
	Time   time.Time `json:"time"` // of the intent
	State  State     `json:"state"`
	Change Change    `json:"change"`
}

// Name is how people and the history call the entry.
func (e Entry) Name() string { return fmt.Sprint(e.ID) }

// Result is what undoing one entry came to. Err is nil if it was undone and that was verified.
type Result struct {
	Entry   Entry  `json:"entry"`
	Tries   int    `json:"tries"`
	Checked string `json:"checked,omitempty"` // what was seen
	Err     error  `json:"-"`
}

// Failed are the results with an error.
func Failed(results []Result) []Result {
	var out []Result
	for _, r := range results {
		if r.Err != nil {
			out = append(out, r)
		}
	}
	return out
}
