package kube

import (
	"io"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/recorder"
)

// request is one request of a user.
type request struct {
	*service
	user     user
	access   impersonation
	resource resource
	remote   string
}

// serve passes the request on to the API server in the user's name and leaves audit events.
func (r *request) serve(w http.ResponseWriter, hr *http.Request) {
	status := &statusWriter{ResponseWriter: w}
	stream := r.newStream(hr)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      quiet(r.env.Log),
		Transport:     r.api.transport,
		Rewrite:       func(pr *httputil.ProxyRequest) { r.rewrite(pr) },
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode != http.StatusSwitchingProtocols || stream == nil {
				return nil
			}
			return stream.begin(resp)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			r.env.Log.Warn("Kubernetes request", "user", r.user.Name, "path", hr.URL.Path, "err", err)
			fail(w, http.StatusBadGateway, err)
		},
	}
	proxy.ServeHTTP(status, hr)
	if stream != nil {
		stream.end()
		return
	}
	if !isDiscovery(hr.URL.Path, r.resource) && r.resource.sub != "portforward" {
		r.emitter.Emit(r.requestEvent(hr, status.code))
	}
}

// rewrite puts the service's credentials and the user's name in place of what the proxy sent.
func (r *request) rewrite(pr *httputil.ProxyRequest) {
	pr.SetURL(r.api.url)
	h := pr.Out.Header
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") || name == headerIdentity || name == headerClientAddr {
			delete(h, name)
		}
	}
	h.Set("Impersonate-User", r.access.user)
	for _, g := range r.access.groups {
		h.Add("Impersonate-Group", g)
	}
	if err := r.api.authorize(h); err != nil {
		r.env.Log.Error("credentials for the API server", "err", err)
	}
}

// statusWriter remembers the answer's status. It stays hijackable for upgrades.
type statusWriter struct {
	http.ResponseWriter
	code int
}

func (w *statusWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach flushing and hijacking.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (r *request) requestEvent(hr *http.Request, code int) *events.KubeRequest {
	e := &events.KubeRequest{
		Metadata: events.Metadata{Type: recorder.TypeKubeRequest, Code: recorder.CodeKubeRequest}, UserMetadata: r.userMetadata(),
		ConnectionMetadata: r.connectionMetadata(), ServerMetadata: r.serverMetadata(), KubernetesClusterMetadata: r.clusterMetadata(),
		RequestPath: hr.URL.Path, Verb: hr.Method, ResponseCode: int32(code),
	}
	r.resource.fill(e)
	return e
}

func (r *request) userMetadata() events.UserMetadata { return events.UserMetadata{User: r.user.Name} }

func (r *request) connectionMetadata() events.ConnectionMetadata {
	return events.ConnectionMetadata{RemoteAddr: r.remote, LocalAddr: r.api.url.Host, Protocol: "kube"}
}

func (r *request) serverMetadata() events.ServerMetadata {
	return events.ServerMetadata{ServerID: r.env.Auth.Identity().HostUUID, ServerNamespace: "default"}
}

func (r *request) clusterMetadata() events.KubernetesClusterMetadata {
	return events.KubernetesClusterMetadata{
		KubernetesCluster: r.name, KubernetesUsers: r.access.users, KubernetesGroups: r.access.groups, KubernetesLabels: r.env.Config.Kube.Labels,
	}
}

// readWriteCloser is what the body of an upgraded answer is.
type readWriteCloser = io.ReadWriteCloser
