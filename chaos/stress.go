package chaos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"shakedown.dev/shakedown/scenarios"
)

var resourceStress = Kind{
	Name: "resourceStress",
	Proof: "the kernel has used at least 0.1 s of processor time for the busy threads, all of them alive; has the bytes held as resident; " +
		"and has as the main process' limit of descriptors what it has open and the few more",
	Healed: "no process of ours is left in the container, the limit is as before, and the workload has all replicas ready",
	Where: "clusters that run programs on their nodes (embedded, kind), and where they can be put into the container's cgroup, as its limits would not " +
		"count them otherwise; descriptors alone anywhere on these",
	Example: "resourceStress: {select: {component: proxy, count: 1}, cpus: 2, memory: 64MiB, for: 1m}",
	available: func(ctx context.Context, s *Site) error {
		if _, err := s.sh(ctx, "command -v prlimit setsid nsenter >/dev/null"); err != nil {
			return fmt.Errorf("programs to do it with: %w", err)
		}
		facts, err := s.Cluster.Facts(ctx)
		if err == nil && !facts.Limits.Hold && (s.Do.Args.Int("cpus") > 0 || s.Do.Args.Int("memory") > 0) {
			err = fmt.Errorf("limits of containers do not hold on this cluster: %s", facts.Limits.Why)
		}
		return err
	},
	inject: scripting(stressed),
}

const (
	// $2 is the mark, $3 busy threads, $4 bytes, $5 descriptors left and $6 the limit of before, or empty.
	// What is started is in the container's cgroups and its PID namespace: it counts there, and dies with it.
	addStress = ours + apart + `p=$(main $1) || { echo it has no process >&2; exit 1; }
grow() { n=0; for g in /sys/fs/cgroup/*/shakedown/*/*/$c/cgroup.procs /sys/fs/cgroup/shakedown/*/*/$c/cgroup.procs; do
[ -w $g ] && echo 0 >$g && n=1; done
[ $n = 1 ] || while IFS=: read -r _ h path; do g=/host/cgroup/${h#name=}$path/cgroup.procs
case $path in *$c*) [ -w "$g" ] && echo 0 >"$g" && n=1;; esac; done </proc/$p/cgroup
[ $n = 1 ] && exec setsid nsenter -t $p -p "$@"; }
c=$1 SHAKEDOWN_FAULT=$2; export SHAKEDOWN_FAULT; i=0
while [ $i -lt $3 ]; do i=$((i+1)); (grow sh -c 'while :; do :; done') </dev/null >/dev/null 2>&1 & done
[ $4 = 0 ] || (grow sh -c '{ head -c "$1" /dev/zero; sleep 86400; } | tail -c "$1"' sh $4) </dev/null >/dev/null 2>&1 &
[ -z "$5" ] || prlimit --pid $p --nofile=$(($(ls /proc/$p/fd | wc -l) + $5)): || exit 1
apart $2 $((2*$3 + ($4 > 0 ? 3 : 0)))`
	// What a script starts is killed at its end with its process group, so that it has to be out of that first.
	apart = `session() { sed 's/.*) //' /proc/$1/stat 2>/dev/null | awk '{print $4}'; }
apart() { s=$(session $$); tries=0; while [ $tries -lt 200 ]; do tries=$((tries+1)); n=0
for q in $(ours $1); do [ "$(session $q)" = "$s" ] || n=$((n+1)); done; [ $n -ge $2 ] && return 0; sleep 0.02; done
echo "$n of $2 processes began" >&2; return 1; }` + "\n"
	ours       = `ours() { grep -lsz "^SHAKEDOWN_FAULT=$1\$" /proc/[0-9]*/environ | sed 's,^/proc/\([0-9]*\)/.*,\1,'; }` + "\n"
	limitOf    = `limit() { awk '/^Max open files/ {print $4}' /proc/$1/limits; }` + "\n"
	dropStress = ours + `for q in $(ours $2); do kill -KILL $q; done
[ -z "$6" ] || { p=$(main $1) && prlimit --pid $p --nofile=$6: ; }
exit 0`
	stressGone = ours + limitOf + `[ -z "$(ours $2)" ] || exit 1
[ -z "$6" ] && exit 0; p=$(main $1) || exit 0; [ "$(limit $p)" = "$6" ]`
	// Prints: processes that are busy, their ticks (of 10 ms), kB resident of all, the limit, open descriptors.
	lookStress = ours + limitOf + `n=0 t=0 m=0
for q in $(ours $2); do case "$(tr '\0' ' ' </proc/$q/cmdline)" in "sh -c while :"*) n=$((n+1)); t=$((t + $(sed 's/.*) //' /proc/$q/stat | awk '{print $12+$13}')));; esac
m=$((m + $(awk '/^VmRSS/ {print $2; f=1} END {if (!f) print 0}' /proc/$q/status))); done
echo $n $t $m $(limit $p) $(ls /proc/$p/fd | wc -l)`
)

func stressed(ctx context.Context, s *Site, t target) (script, error) {
	args := s.Do.Args
	left, before := "", ""
	if args.Has("files") {
		now, err := s.lookStress(ctx, t)
		if err != nil {
			return script{}, err
		}
		left, before = strconv.Itoa(args.Int("files")), strconv.Itoa(now.limit)
	}
	if args.Int("cpus") == 0 && args.Int("memory") == 0 && left == "" {
		return script{}, errors.New("it is to take neither CPU nor memory nor descriptors")
	}
	return script{
		verb: "take resources from", do: addStress, back: dropStress, gone: stressGone,
		args: []string{s.mark(), strconv.Itoa(args.Int("cpus")), strconv.Itoa(args.Int("memory")), left, before},
		bites: func(ctx context.Context, t target) (string, error) {
			now, err := s.lookStress(ctx, t)
			if err != nil {
				return "", err
			}
			return now.against(args)
		},
		quiet: func(ctx context.Context, t target) (string, error) {
			now, err := s.lookStress(ctx, t)
			if err != nil {
				return "", err
			}
			if now.busy > 0 || before != "" && strconv.Itoa(now.limit) != before {
				return "", fmt.Errorf("%d busy threads, at most %d files: %w", now.busy, now.limit, errStillThere)
			}
			return fmt.Sprintf("nothing of ours runs in it, it may open %d files", now.limit), nil
		},
	}, nil
}

// stress is what the kernel tells of a container and of what was put into it.
type stress struct{ busy, ticks, residentKB, limit, open int }

func (s *Site) lookStress(ctx context.Context, t target) (stress, error) {
	said, err := s.in(ctx, t, lookStress, s.mark())
	if err != nil {
		return stress{}, err
	}
	var x stress
	if _, err := fmt.Sscan(said, &x.busy, &x.ticks, &x.residentKB, &x.limit, &x.open); err != nil {
		return x, fmt.Errorf("read %q: %w", said, err)
	}
	return x, nil
}

// against says what is in force of what was wanted, or what is not.
func (x stress) against(want scenarios.Args) (string, error) {
	var said []string
	if n := want.Int("cpus"); n > 0 {
		if x.busy < n || x.ticks < 10 {
			return "", fmt.Errorf("%d of %d busy threads have used %d ms of processor time", x.busy, n, x.ticks*10)
		}
		said = append(said, fmt.Sprintf("%s used %d ms of processor time", count(n, "busy thread"), x.ticks*10))
	}
	if n := want.Int("memory"); n > 0 {
		if x.residentKB*1024 < n {
			return "", fmt.Errorf("%d of %d KiB are resident", x.residentKB, n/1024)
		}
		said = append(said, fmt.Sprintf("%d KiB more are resident", x.residentKB))
	}
	if want.Has("files") {
		// Some may have been closed since.
		if x.limit > x.open+want.Int("files")+64 {
			return "", fmt.Errorf("%d files are open, and %d may be", x.open, x.limit)
		}
		said = append(said, fmt.Sprintf("%d files are open of at most %d", x.open, x.limit))
	}
	return strings.Join(said, ", "), nil
}
