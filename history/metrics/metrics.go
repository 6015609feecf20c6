// Package metrics is the table of the metrics of Teleport that a history holds of each pod, with what each means. It
// knows nothing of how they are read: those who scrape and those who judge share it.
package metrics

// Type says how a metric is to be read.
type Type string

// The types. A counter only rises, and begins at zero with its process.
const (
	Gauge   Type = "gauge"
	Counter Type = "counter"
)

// Metric is a metric that matters, by the name Teleport gives it.
type Metric struct {
	Name    string
	Of      string // component that has it: auth, proxy, agent; empty: all
	Type    Type
	Meaning string
}

// The metrics that leaks show in.
const (
	Goroutines = "go_goroutines"
	Resident   = "process_resident_memory_bytes"
	// HeapTarget is where Go's collector runs next: twice what was live when it ran last, with the default GOGC.
	// Unlike resident memory it knows no garbage.
	HeapTarget = "go_memstats_next_gc_bytes"
)

// Table lists them, as Teleport 13 names them: most without any prefix. The stand-in has the same.
func Table() []Metric {
	return []Metric{
		{"server_interactive_sessions_total", "", Gauge, "sessions held now, on the host that records them"},
		{"proxy_ssh_sessions_total", "proxy", Gauge, "SSH sessions that go through the proxy now"},
		{"user_max_concurrent_sessions_hit_total", "", Counter, "sessions refused for a user's limit"},
		{"teleport_connect_to_node_attempts_total", "proxy", Counter, "dials to nodes"},
		{"failed_connect_to_node_attempts_total", "proxy", Counter, "dials to nodes that failed"},
		{"proxy_connection_limit_exceeded_total", "proxy", Counter, "connections refused for a limit by client address"},
		{"teleport_reverse_tunnels_connected", "proxy", Gauge, "agents' tunnels that end here"},
		{"proxy_missing_ssh_tunnels", "proxy", Gauge, "tunnels that agents should have here and have not"},
		{"teleport_connected_resources", "auth", Gauge, "resources that keep themselves alive here"},
		{"teleport_registered_servers", "auth", Gauge, "servers registered, by version"},
		{"heartbeat_connections_received_total", "auth", Counter, "heartbeats received"},
		{"heartbeats_missed_total", "auth", Gauge, "heartbeats missed in the last round"},
		{"process_state", "", Gauge, "0 ok, 1 recovering, 2 degraded, 3 starting"},
		{"audit_failed_emit_events", "", Counter, "audit events that were lost"},
		{"teleport_audit_emit_events", "", Counter, "audit events emitted"},
		{"teleport_incomplete_session_uploads_total", "", Gauge, "recordings waiting to be completed; counted every five minutes"},
		{"backend_write_requests_total", "auth", Counter, "writes to storage"},
		{"backend_write_requests_failed_total", "auth", Counter, "writes to storage that failed"},
		{"backend_read_requests_failed_total", "auth", Counter, "reads from storage that failed"},
		{"auth_generate_requests", "auth", Gauge, "certificate requests in work"},
		{"auth_generate_requests_throttled_total", "auth", Counter, "certificate requests refused for their rate"},
		{"teleport_cache_stale_events", "", Counter, "events that came too late for a cache"},
		{Goroutines, "", Gauge, "goroutines"},
		{"process_open_fds", "", Gauge, "open file descriptors"},
		{Resident, "", Gauge, "resident memory"},
		{HeapTarget, "", Gauge, "heap at which Go collects next: twice what was live at the last collection"},
		{"process_cpu_seconds_total", "", Counter, "processor time used"},
	}
}

// Names gives the names in the table's order.
func Names() []string {
	var out []string
	for _, m := range Table() {
		out = append(out, m.Name)
	}
	return out
}

// Find gives the metric of a name.
func Find(name string) (Metric, bool) {
	for _, m := range Table() {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}
