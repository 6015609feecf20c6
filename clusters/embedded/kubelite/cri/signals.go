package cri

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// parseSignal reads SIGTERM, TERM, 15, SIGRTMIN+3 and SIGRTMINPLUS3, the forms
// of images and of the CRI.
func parseSignal(s string) (unix.Signal, bool) {
	s = strings.ToUpper(strings.TrimSpace(s))
	if n, err := strconv.Atoi(s); err == nil {
		return unix.Signal(n), n > 0 && n <= rtMax
	}
	if !strings.HasPrefix(s, "SIG") {
		s = "SIG" + s
	}
	if sig := unix.SignalNum(s); sig != 0 {
		return sig, true
	}
	if sig, ok := signalAliases[s]; ok {
		return sig, true
	}
	s = strings.NewReplacer("PLUS", "+", "MINUS", "-").Replace(s)
	for prefix, base := range map[string]int{"SIGRTMIN": rtMin, "SIGRTMAX": rtMax} {
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			n, err := strconv.Atoi("0" + strings.TrimLeft(rest, "+-"))
			if strings.HasPrefix(rest, "-") {
				n = -n
			}
			sig := base + n
			return unix.Signal(sig), err == nil && sig >= rtMin && sig <= rtMax
		}
	}
	return 0, false
}

// signalAliases are second names that package unix does not know.
var signalAliases = map[string]unix.Signal{"SIGCLD": unix.SIGCHLD, "SIGIOT": unix.SIGABRT, "SIGPOLL": unix.SIGIO}

// Real-time signals as programs see them; the C library keeps 32 and 33.
const (
	rtMin = 34
	rtMax = 64
)
