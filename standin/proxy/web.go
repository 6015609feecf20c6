package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"shakedown.dev/shakedown/standin/sshutil"
	"shakedown.dev/shakedown/standin/tunnel"
)

// webServer serves the few pages of the web API that clients need.
type webServer struct {
	*service
	http  *http.Server
	conns *sshutil.Handoff
}

func newWebServer(s *service) *webServer {
	w := &webServer{service: s, conns: sshutil.NewHandoff()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /webapi/ping", w.ping)
	mux.HandleFunc("GET /webapi/ping/{connector}", w.ping)
	mux.HandleFunc("GET /webapi/find", w.find)
	mux.HandleFunc("GET /{$}", w.root)
	w.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	return w
}

func (w *webServer) serve(ctx context.Context) {
	context.AfterFunc(ctx, func() { w.http.Close() })
	if err := w.http.Serve(w.conns); !errors.Is(err, http.ErrServerClosed) {
		w.env.Log.Error("serve web", "err", err)
	}
}

func (w *webServer) handle(ctx context.Context, conn net.Conn) { w.conns.Serve(ctx, conn) }

func (w *webServer) ping(rw http.ResponseWriter, _ *http.Request) {
	cluster := w.cluster.Get()
	p := w.settings()
	p.Auth = &tunnel.AuthSettings{Type: cluster.AuthType, SecondFactor: cluster.SecondFactor, Local: &tunnel.LocalSettings{}, PrivateKeyPolicy: "none"}
	if p.Auth.Type == "" {
		p.Auth.Type = "local"
	}
	writeJSON(rw, p)
}

func (w *webServer) find(rw http.ResponseWriter, _ *http.Request) { writeJSON(rw, w.settings()) }

func (w *webServer) root(rw http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(rw, "This is the Shakedown stand-in for Teleport, behaving as %s. It has no web interface.\n", w.env.Behaviour.Name)
}

func writeJSON(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/json")
	json.NewEncoder(rw).Encode(v) // a client that is gone is no error of ours
}

func (w *webServer) settings() tunnel.PingResponse {
	c, p := w.cluster.Get(), w.env.Config.Proxy
	r := tunnel.PingResponse{ServerVersion: w.env.Behaviour.Version, MinClientVersion: minClient(w.env.Behaviour.Version), ClusterName: c.Cluster}
	s := &r.Proxy
	s.TLSRouting = c.ListenerMode == "multiplex"
	s.Kube.Enabled = true
	s.SSH = tunnel.SSHSettings{ListenAddr: w.addrs.ssh, TunnelListenAddr: w.addrs.tunnel, WebListenAddr: w.addrs.web}
	s.Kube.ListenAddr = w.addrs.kube
	if w.multiplexed() {
		s.SSH.ListenAddr, s.SSH.TunnelListenAddr, s.Kube.ListenAddr = w.addrs.web, w.addrs.web, w.addrs.web
	}
	s.SSH.PublicAddr = first(p.PublicAddr)
	s.SSH.SSHPublicAddr = first(p.SSHPublicAddr)
	s.SSH.TunnelPublicAddr = first(p.TunnelPublicAddr)
	s.Kube.PublicAddr = first(p.KubePublicAddr)
	return r
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// minClient is one major version below the server's, as the real proxy says.
func minClient(version string) string {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < 1 {
		return version
	}
	return strconv.Itoa(n-1) + ".0.0"
}
