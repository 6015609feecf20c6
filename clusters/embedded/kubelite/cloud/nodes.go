package cloud

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// everyNode shows the service controller one node that stands for all and never
// changes. An address here does not depend on nodes, and to watch hundreds of
// them for nothing is what this spares. An empty list would not do: the
// controller then warns in an event that no node is available.
type everyNode struct{ indexer cache.Indexer }

var _ coreinformers.NodeInformer = everyNode{}

func newEveryNode() (everyNode, error) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	return everyNode{indexer}, indexer.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "every-node"}})
}

func (n everyNode) Lister() corelisters.NodeLister      { return corelisters.NewNodeLister(n.indexer) }
func (n everyNode) Informer() cache.SharedIndexInformer { return still{} }

// still is an informer of what never happens. It has only the methods that the
// service controller calls.
type still struct{ cache.SharedIndexInformer }

func (still) HasSynced() bool { return true }

func (still) AddEventHandlerWithResyncPeriod(cache.ResourceEventHandler, time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}
