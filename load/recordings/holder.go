package recordings

import (
	"shakedown.dev/shakedown/history"
)

// mayComplete tells whether the upload completer still has time to finish the recording: it is abandoned, because
// what recorded or held it ended before it did, and not lost.
func (c *check) mayComplete(it *item, h state) bool {
	return h.abandoned && !h.lost() && c.opts.History.Now() < it.End+c.opts.Completer
}

// mayBackOff tells whether the recording may still wait with whoever recorded it: an auth ended before it could be
// uploaded or while earlier ones were, so that the uploader may be waiting to try again.
func (c *check) mayBackOff(it *item, h state) bool {
	if !h.holds || h.Gone || it.uploaded || atAuth(c.opts.Mode) || it.Type == kubeExec || c.opts.Auths == nil {
		return false
	}
	tried := it.End + 2*c.opts.Uploader/uploaderWaits
	if c.opts.History.Now() >= tried+c.opts.Uploader {
		return false
	}
	return len(c.opts.Auths(max(0, it.End-c.opts.Uploader), tried)) > len(c.opts.Auths(tried, tried))
}

const emptyDir = "emptyDir"

// certainLooks is how many looks at the log a recording is given after its holder was seen gone: what it uploaded
// in its last moment is in the log by then.
const certainLooks = 2

// lost tells whether the recording cannot come any more: it is not uploaded, and who held it is gone with it.
func (c *check) lost(it *item) bool {
	return c.holder(it).lost() && it.looks >= certainLooks && !it.uploaded
}

// state is what became of whoever holds a recording until its upload.
type state struct {
	Holder
	pod       history.PodRef
	holds     bool // that it was the holder is certain
	abandoned bool // the recorder or a holder ended since the session opened
}

// lost tells whether all that it held is gone with it.
func (s state) lost() bool { return s.holds && s.Gone && s.Storage == emptyDir }

// holder finds out about whoever holds the recording.
func (c *check) holder(it *item) state {
	pod := recorder(c.opts.Mode, it.Session)
	var s state
	if pod.UID != "" || pod.Name != "" {
		s = state{Holder: c.opts.Holder(pod, it.Open), pod: pod, holds: true}
	}
	s.abandoned = s.Gone || s.Restarted
	if it.Type == kubeExec || atAuth(c.opts.Mode) {
		return c.auths(it, s.abandoned)
	}
	return s
}

// auths is for what an auth pod holds, nobody says which: it is gone only if all are that it can be.
func (c *check) auths(it *item, abandoned bool) state {
	s := state{pod: history.PodRef{Component: "auth"}, abandoned: abandoned}
	if c.opts.Auths == nil {
		return s
	}
	all := c.opts.Auths(it.Open, it.End)
	s.Gone, s.holds = len(all) > 0, len(all) > 0
	for _, a := range all {
		s.Gone = s.Gone && a.Gone
		s.abandoned = s.abandoned || a.Gone || a.Restarted
		s.Storage = a.Storage
	}
	return s
}

// kubeExec is the type of sessions that the Kubernetes service records, which runs in the auth pods.
const kubeExec = "kube-exec"

// recorder is the pod that records a session: where an async mode keeps it, and where a sync mode sends it from.
func recorder(mode string, s Session) history.PodRef {
	switch {
	case s.Type == kubeExec:
		return history.PodRef{} // an auth pod
	case atProxy(mode):
		return s.Proxy
	}
	return s.Agent.Pod
}

func atProxy(mode string) bool { return mode == "proxy" || mode == "proxy-sync" }
func atAuth(mode string) bool  { return mode == "node-sync" || mode == "proxy-sync" }
