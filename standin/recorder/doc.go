// Package recorder records sessions on a node, in a recording proxy or in the Kubernetes service, with the real program's places on disk, flush rules, uploader and completer, so that what is lost when the host dies is what the real one loses.
//
// While a session lives its parts are at <data_dir>/log/upload/streaming/default/multi/<upload>/<session>/N.part; a part is cut at 128 KiB compressed or after 5 minutes of quiet, and what is not yet cut is only in memory. A finished recording is <session>.tar in streaming/default until the uploader has handed it to the auth. In the sync modes events go to the auth as they happen.
package recorder

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/process"
)

// Audit events of a session: type and code.
const (
	TypeStart, CodeStart   = "session.start", "T2000I"
	TypeLeave, CodeLeave   = "session.leave", "T2003I"
	TypeEnd, CodeEnd       = "session.end", "T2004I"
	TypeUpload, CodeUpload = "session.upload", "T2005I"
	TypeData, CodeData     = "session.data", "T2006I"
	TypeResize, CodeResize = "resize", "T2002I"
	TypeReject, CodeReject = "session.rejected", "T1006W"
	TypePrint              = "print"
	TypeExec               = "exec"
	CodeExec               = "T3002I"
	CodeExecFailure        = "T3002E"
	TypeKubeRequest        = "kube.request"
	CodeKubeRequest        = "T3009I"
	TypeAuth               = "auth"
	CodeAuthFailure        = "T3007W"
	TypePortForward        = "port"
	CodePortForward        = "T3003I"
	CodePortForwardFailure = "T3003E"
)

// Recording modes.
const (
	ModeNode      = "node"
	ModeNodeSync  = "node-sync"
	ModeProxy     = "proxy"
	ModeProxySync = "proxy-sync"
	ModeOff       = "off"
)

// AtProxy reports whether proxies record in this mode.
func AtProxy(mode string) bool { return mode == ModeProxy || mode == ModeProxySync }

// Sync reports whether events go to the auth as they happen in this mode.
func Sync(mode string) bool { return strings.HasSuffix(mode, "-sync") }

// Config is what a host's recorder needs.
type Config struct {
	DataDir   string
	Auth      authclient.Client
	Behaviour process.Behaviour
	Scale     process.Scale
	Faults    *faults.Registry
	Emitter   *Emitter
	Metrics   prometheus.Registerer
	Log       *slog.Logger
}

// ConfigOf takes the recorder's part of a service's environment.
func ConfigOf(env process.Env, emitter *Emitter) Config {
	return Config{
		DataDir: env.Config.Global.DataDir, Auth: env.Auth, Behaviour: env.Behaviour, Scale: env.Scale,
		Faults: env.Faults, Emitter: emitter, Metrics: env.Metrics, Log: env.Log,
	}
}

// Host records the sessions of one service and uploads what is finished.
type Host struct {
	cfg        Config
	incomplete prometheus.Gauge

	mu      sync.Mutex
	stop    context.CancelFunc // nil unless uploading
	stopped bool
	wg      sync.WaitGroup
}

// NewHost gives a recorder whose uploader and completer do nothing until Start.
func NewHost(cfg Config) *Host {
	return &Host{cfg: cfg, incomplete: Gauge(cfg.Metrics, "teleport_incomplete_session_uploads_total", "Number of sessions not yet uploaded to auth")}
}

// Start runs the uploader and the completer until StopUploads.
func (h *Host) Start(ctx context.Context) error {
	if err := h.makeDirs(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil
	}
	ctx, h.stop = context.WithCancel(ctx)
	h.wg.Go(func() { h.runUploader(ctx) })
	h.wg.Go(func() { h.runCompleter(ctx) })
	return nil
}

// StopUploads ends the uploader and the completer, cutting what they do; the real ones stop at the beginning of a graceful shutdown.
func (h *Host) StopUploads() {
	h.mu.Lock()
	h.stopped = true
	if h.stop != nil {
		h.stop()
	}
	h.mu.Unlock()
	h.wg.Wait()
}

func (h *Host) scanDir() string {
	return filepath.Join(h.cfg.DataDir, "log", "upload", "streaming", "default")
}

func (h *Host) corruptedDir() string {
	return filepath.Join(h.cfg.DataDir, "log", "upload", "corrupted", "default")
}

func (h *Host) multiDir() string { return filepath.Join(h.scanDir(), "multi") }

func (h *Host) uploadDir(uploadID, sessionID string) string {
	return filepath.Join(h.multiDir(), uploadID, sessionID)
}

func (h *Host) tarPath(sessionID string) string {
	return filepath.Join(h.scanDir(), sessionID+".tar")
}

// flushIdle is how long events may stay in memory alone.
func (h *Host) flushIdle() time.Duration { return h.cfg.Scale.Of(process.PartFlushIdle) }
