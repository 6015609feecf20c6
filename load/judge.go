package load

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"shakedown.dev/shakedown/history"
)

// evidence is what is known of a session when it is over; judging it is pure.
type evidence struct {
	ending   bool // the script was over: its input was ended, or it has none
	cutShort bool // and it was over because the run ended, not because of its length
	want     int  // exit status that a clean end has
	anyExit  bool // any exit status is clean: a script's last command may fail

	flaw   string // what is wrong with what came, by the script
	forced *ended // why we gave the session up; nil: the far side ended it
	silent bool   // given up because an answer was owed for too long
	left   bool   // given up because the run was over
	words  string // of the server, said just before the end
	end    ended
	// longest is the longest silence while an answer was owed; stall is from when on that is stalled.
	longest, stall time.Duration
}

// judgement is what the ledger says of a session's end.
type judgement struct {
	class  history.Class
	cut    history.Cut
	exit   *int
	reason string
}

// judge puts an opened session into its class.
func (e evidence) judge() judgement {
	j := judgement{cut: e.end.Cut, reason: e.end.Reason}
	if e.end.Exited {
		j.exit, j.cut = &e.end.Status, ""
	}
	switch {
	case e.left:
		j.class, j.cut = history.Unfinished, ""
	case e.silent:
		j.class, j.cut = history.Stalled, ""
	case e.forced != nil:
		j.class = history.Dropped
	case !e.end.Exited:
		j.class, j.reason = history.Dropped, join(e.end.Reason, e.words)
		if e.words != "" && (j.cut == history.CutEOF || j.cut == history.CutChannel) {
			j.cut = history.CutMessage
		}
	case !e.ending:
		j.class, j.cut = history.Dropped, history.CutMessage
		j.reason = join(fmt.Sprintf("ended by the far side before its script was over: %s", e.end.status()), e.end.said(e.words))
	case e.end.Signal != "" || (e.end.Status != e.want && !e.anyExit):
		j.class, j.cut = history.Dropped, history.CutProtocol
		if e.end.Signal != "" {
			j.cut = history.CutMessage
		}
		j.reason = join(fmt.Sprintf("%s, expected status %d", e.end.status(), e.want), e.end.said(e.words))
	case e.flaw != "" && !e.cutShort:
		j.class, j.cut, j.reason = history.Dropped, history.CutProtocol, e.flaw
	case e.stall > 0 && e.longest >= e.stall:
		j.class = history.Stalled
		j.reason = fmt.Sprintf("silent for %s, then ended by itself", e.longest.Round(time.Millisecond))
	case e.cutShort:
		j.class = history.Unfinished
	default:
		j.class, j.reason = history.Clean, ""
	}
	return j
}

func (e ended) status() string {
	if e.Signal != "" {
		return "signal " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Status)
}

// said are the words that go with an exit status.
func (e ended) said(words string) string {
	if e.Reason != "" {
		return e.Reason
	}
	return words
}

func join(what, words string) string {
	if words == "" {
		return what
	}
	return what + "; it said: " + words
}

// ourFault tells whether an error of opening is this machine's: out of descriptors, ports or memory.
func ourFault(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
