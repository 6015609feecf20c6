package embedded

import (
	"encoding/json"
	"testing"
	"time"
)

// TestWire pins the JSON that kubelite/boot has its own types for.
func TestWire(t *testing.T) {
	zero := 0
	for _, row := range []struct {
		why  string
		v    any
		want string
	}{
		{"the spec on stdin",
			BootSpec{Protocol: 1, Name: "a", Nodes: 3, HollowNodes: 2, NodeMonitorGrace: "40s", ImageCache: "/c", APIPort: 6443,
				Images: []ImageSource{{"x", "host:/y"}}, Labels: map[string]string{"k": "v"}},
			`{"protocol":1,"name":"a","nodes":3,"hollowNodes":2,"nodeMonitorGrace":"40s","images":[{"name":"x","source":"host:/y"}],"imageCache":"/c","apiPort":6443,"labels":{"k":"v"}}`},
		{"the spec of the image helper", ImagesSpec{1, "a", "/c"}, `{"protocol":1,"name":"a","imageCache":"/c"}`},
		{"progress", Progress{StepReady, StepDone, ""}, `{"step":"ready","state":"done"}`},
		{"a request says only what its operation needs", Request{Op: OpStatus}, `{"op":"status"}`},
		{"a partition", Request{Op: OpNode, Node: "node1", Action: "partition", From: []string{"node2", "api"}},
			`{"op":"node","node":"node1","action":"partition","from":["node2","api"]}`},
		{"exit status 0 is said", Response{Exit: &zero}, `{"exit":0}`},
		{"a refusal", Response{Error: "no", Errno: 111}, `{"error":"no","errno":111}`},
		{"status",
			Status{Name: "a", PID: 1, Started: time.Unix(0, 0).UTC(), Nodes: []NodeStatus{{"node1", "10.0.0.1", "10.244.1.0/24", "running", false}}, Spec: BootSpec{Name: "a"}},
			`{"name":"a","pid":1,"started":"1970-01-01T00:00:00Z","version":"","nodes":[{"name":"node1","address":"10.0.0.1","podCIDR":"10.244.1.0/24","state":"running","hollow":false}],` +
				`"apiServer":"","serviceCIDR":"","podCIDR":"","dns":"","limits":{"memoryCPU":false},"spec":{"protocol":0,"name":"a","nodes":0,"hollowNodes":0,"imageCache":"","apiPort":0}}`},
	} {
		t.Run(row.why, func(t *testing.T) {
			got, err := json.Marshal(row.v)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}
