package undo

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/clusters"
)

// Cluster is the Undoer of all kinds of changes.
type Cluster struct {
	Client kubernetes.Interface
	// Cluster is asked for clusters.NodeOperator and clusters.Spawner; nil if only the API is there.
	Cluster clusters.Cluster
}

// Undo does what the entry's kind says.
func (c Cluster) Undo(ctx context.Context, e Entry) (string, error) {
	do := map[Kind]func(context.Context, Entry) (string, error){
		NodeCordoned:    c.uncordon,
		NodeTainted:     c.untaint,
		NodeKilled:      c.powerOn,
		NodePaused:      c.resume,
		NodePartitioned: c.rejoin,
		PodsRemoved:     c.podsBack,
		ObjectCreated:   c.remove,
		ObjectChanged:   c.restore,
		CommandRun:      c.command,
	}[e.Change.Kind]
	if do == nil {
		return "", fmt.Errorf("%w: this version knows no change of kind %q", ErrFinal, e.Change.Kind)
	}
	return do(ctx, e)
}

func (c Cluster) operator() (clusters.NodeOperator, error) {
	op, ok := c.Cluster.(clusters.NodeOperator)
	if !ok {
		return nil, fmt.Errorf("%w: this cluster's provider cannot do anything to nodes", ErrFinal)
	}
	return op, nil
}

// errGone is found with errors.Is: the very thing that was changed exists no more.
var errGone = errors.New("is gone")

// ok turns errGone into a success that says so.
func ok(checked string, err error) (string, error) {
	if errors.Is(err, errGone) {
		return err.Error(), nil
	}
	return checked, err
}
