package chaos

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var clockSkew = Kind{
	Name:   "clockSkew",
	Proof:  "an HTTP server of the container sends a Date that is off by as much, to 2 s; a container without one cannot prove it",
	Healed: "its Date is right again, to 2 s, and the workload has all replicas ready",
	Where: "clusters that run programs on their nodes (embedded, kind), on linux/amd64: the vDSO of each of the container's processes is changed. " +
		"Time namespaces cannot do it, because they shift neither the wall clock nor processes that run, and libfaketime does not reach programs in Go, " +
		"which do not call libc. Programs that are executed later have the right time",
	Example: "clockSkew: {select: {component: agent, count: 1}, by: 10m, direction: forward, for: 1m}",
	available: func(ctx context.Context, s *Site) error {
		if _, err := clockPatches(s.skew()); err != nil {
			return err
		}
		_, err := s.sh(ctx, "command -v dd od ss nsenter >/dev/null")
		return err
	},
	inject: scripting(skewed),
}

const (
	eachPatch = `base() { sed -n "s/-.*\[vdso\]\$//p" /proc/$1/maps; }
id=$1; shift
`
	// patchClock writes into the vDSO of each process. Each patch is five words: OFFSET LENGTH CODE BACK HEX,
	// where CODE and BACK are octal for printf and HEX is BACK. No thread may be inside of the code meanwhile:
	// all are stopped, and where each is is looked at.
	patchClock = `end() { sed -n "s/^[^-]*-\([^ ]*\) .*\[vdso\]\$/\1/p" /proc/$1/maps; }
outside() { for t in /proc/$1/task/*; do pc=$(sed 's/.* //' $t/syscall); case $pc in 0x*) ;; *) continue;; esac
[ $((pc)) -ge $((0x$2)) ] && [ $((pc)) -lt $((0x$3)) ] && return 1; done; return 0; }
stopped() { for t in /proc/$1/task/*; do grep -q '^State:.*T (stopped)' $t/status || return 1; done; }
still() { tries=0; while [ $tries -lt 50 ]; do tries=$((tries+1)); kill -STOP $1; n=0
while [ $n -lt 100 ] && ! stopped $1; do n=$((n+1)); sleep 0.01; done
stopped $1 && outside $1 $2 $3 && return 0; kill -CONT $1; sleep 0.01; done; return 1; }
put() { at=$1 b=$2; shift 2; while [ $# -gt 0 ]; do [ $which = code ] && c=$3 || c=$4
printf "$c" | dd of=/proc/$at/mem bs=64 seek=$((0x$b+$1)) oflag=seek_bytes conv=notrunc 2>/dev/null || return 1; shift 5; done; }
for p in $(pids $id); do b=$(base $p); [ -n "$b" ] || continue
still $p $b $(end $p) || { echo "process $p could not be stopped outside of its vDSO" >&2; exit 1; }
put $p $b "$@"; ok=$?; kill -CONT $p; [ $ok = 0 ] || { echo "the vDSO of process $p could not be written" >&2; exit 1; }; done`
	clockBack = `same() { at=$1 b=$2; shift 2; while [ $# -gt 0 ]; do
[ "$(dd if=/proc/$at/mem bs=$2 count=1 skip=$((0x$b+$1)) iflag=skip_bytes 2>/dev/null | od -An -v -tx1 | tr -d ' \n')" = $5 ] || return 1; shift 5; done; }
for p in $(pids $id); do b=$(base $p); [ -n "$b" ] || continue; same $p $b "$@" || exit 1; done; exit 0`
	// listening are the sockets of the container's own processes: the pod's others share its network.
	listening = `nsenter -t $p -n ss -Htlnp >/dev/null || exit 1
for q in $(pids $1); do nsenter -t $p -n ss -Htlnp | grep "pid=$q,"; done; true`
)

// skew is how far the clock is to go, back or forward.
func (s *Site) skew() time.Duration {
	if s.Do.Args.String("direction") == "back" {
		return -s.Do.Args.Duration("by")
	}
	return s.Do.Args.Duration("by")
}

func skewed(ctx context.Context, s *Site, t target) (script, error) {
	patches, err := clockPatches(s.skew())
	if err != nil {
		return script{}, err
	}
	var args []string
	for _, x := range patches {
		args = append(args, strconv.Itoa(x.offset), strconv.Itoa(len(x.code)), octal(x.code), octal(x.back), hex.EncodeToString(x.back))
	}
	said, err := s.in(ctx, t, listening)
	if err != nil {
		return script{}, err
	}
	clock := httpClock{s.World, t.pod.Status.PodIP, ports(said)}
	if _, _, err := clock.off(ctx); err != nil {
		return script{}, fmt.Errorf("it would not be seen: %w", err)
	}
	return script{
		verb: "shift the clock of", args: args,
		do: "which=code\n" + eachPatch + patchClock, back: "which=back\n" + eachPatch + patchClock, gone: eachPatch + clockBack,
		bites: func(ctx context.Context, _ target) (string, error) { return clock.isOff(ctx, s.skew()) },
		quiet: func(ctx context.Context, _ target) (string, error) { return clock.isOff(ctx, 0) },
	}, nil
}

// octal is bytes as the format of printf(1).
func octal(code []byte) string {
	var b strings.Builder
	for _, c := range code {
		fmt.Fprintf(&b, `\%03o`, c)
	}
	return b.String()
}

// ports are the TCP ports in the output of ss that others than the pod itself can reach.
func ports(said string) (out []string) {
	for line := range strings.Lines(said) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		host, port, err := net.SplitHostPort(fields[3])
		if err == nil && !strings.HasPrefix(host, "127.") && host != "::1" {
			out = append(out, port)
		}
	}
	return out
}

// httpClock is the clock that a container's HTTP servers tell in the header Date (RFC 9110, 6.6.1).
type httpClock struct {
	world World
	host  string
	ports []string
}

// off is by how much the first server that answers is off, and who said so.
func (c httpClock) off(ctx context.Context) (time.Duration, string, error) {
	err := errors.New("no HTTP server of the container sends a Date")
	for _, port := range c.ports {
		for _, scheme := range []string{"http", "https"} {
			url := scheme + "://" + net.JoinHostPort(c.host, port) + "/"
			date, failed := c.date(ctx, url)
			if failed == nil {
				return date.Sub(time.Now().Truncate(time.Second)), url, nil // it has whole seconds
			}
			err = errors.Join(err, failed)
		}
	}
	return 0, "", err
}

func (c httpClock) date(ctx context.Context, url string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	transport := &http.Transport{
		DialContext: c.world.Cluster.DialContext, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // its certificate is not what is asked about
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return time.Time{}, err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return time.Time{}, err
	}
	res.Body.Close()
	return http.ParseTime(res.Header.Get("Date"))
}

// isOff sees the clock off by so much.
func (c httpClock) isOff(ctx context.Context, want time.Duration) (string, error) {
	off, who, err := c.off(ctx)
	if err != nil {
		return "", err
	}
	if (off - want).Abs() > 2*time.Second {
		return "", fmt.Errorf("the Date of %s is %s off, want %s", who, off, want)
	}
	return fmt.Sprintf("the Date of %s is %s off", who, off), nil
}
