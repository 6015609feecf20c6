package node

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// apiRecorder sends events of the kubelet of node to the API server.
func apiRecorder(client v1core.EventsGetter, node string) record.EventRecorderLogger {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&v1core.EventSinkImpl{Interface: client.Events("")})
	return b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: node})
}
