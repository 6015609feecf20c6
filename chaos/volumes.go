package chaos

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// A directory is spoilt by an overlay over it, in the container's own mount namespace: what is there is
// seen through it, and what is written would go to a layer of 64 KiB that is full, or may not be written
// to. The volume below is not touched, so that nothing of the machine fills and nothing is lost when the
// overlay goes; it goes with the container, too. The alternative, filling the volume, would fill the disk
// that all nodes share.

const whereMounts = "clusters that run programs on their nodes (embedded, kind), with util-linux' mount and a kernel that has overlay; " +
	"files that a process has open already stay as they are"

var volumeFull = Kind{
	Name:      "volumeFull",
	Proof:     "the kernel answers \"No space left on device\" to whoever makes a file there, in the container's own mount namespace",
	Healed:    "a file can be made there again, and the workload has all replicas ready",
	Where:     whereMounts,
	Example:   "volumeFull: {select: {component: auth, count: 1}, path: /var/lib/teleport, for: 1m}",
	available: needs("overlay in a mount namespace", tryOverlay),
	inject:    scripting(overlaid("rw", "fill", "No space left on device")),
}

var volumeReadOnly = Kind{
	Name:      "volumeReadOnly",
	Proof:     "the kernel answers \"Read-only file system\" to whoever makes a file there, in the container's own mount namespace",
	Healed:    volumeFull.Healed,
	Where:     whereMounts,
	Example:   "volumeReadOnly: {select: {component: agent, all: true}, path: /var/lib/teleport/log, for: 1m}",
	available: needs("overlay in a mount namespace", tryOverlay),
	inject:    scripting(overlaid("ro", "make unwritable", "Read-only file system")),
}

const (
	tryOverlay = `unshare -m sh -ec 'mount -t tmpfs x /dev/shm 2>/dev/null || mount -t tmpfs x /mnt; cd "$(findmnt -no TARGET -S x | tail -n 1)"
mkdir l u w m; mount -t overlay -o lowerdir=l,upperdir=u,workdir=w x m'`
	// $2 is the directory, $3 the name of the mounts, $4 rw or ro. The upper layer has the directory's own
	// owner and mode, because the overlay shows those.
	addOverlay = `p=$(main $1) || { echo it has no process >&2; exit 1; }
r=/proc/$p/root d=/dev/.$3
[ -d "$r$2" ] || { echo "it has no directory $2" >&2; exit 1; }
awk -v p="$2/" 'index($5, p) == 1 {n++} END {exit n > 0}' /proc/$p/mountinfo || { echo "other volumes are mounted below $2" >&2; exit 1; }
set -e
mkdir "$r$d"; mount -N $p -t tmpfs -o size=64k,nr_inodes=64,mode=0755 "$3" "$d"
mkdir "$r$d/u" "$r$d/w" "$r$d/f"; chmod --reference="$r$2" "$r$d/u"; chown --reference="$r$2" "$r$d/u"
mount -N $p -t overlay -o "$4,lowerdir=$2,upperdir=$d/u,workdir=$d/w" "$3" "$2"
[ $4 = ro ] && exit 0
dd if=/dev/zero of="$r$d/f/space" bs=4k >/dev/null 2>&1 || true
i=0; while touch "$r$d/f/$i" 2>/dev/null; do i=$((i+1)); done`
	dropOverlay = `p=$(main $1) || exit 0
r=/proc/$p/root d=/dev/.$3
out() { nsenter --mount=/proc/$p/ns/mnt --root=/ umount -c -l "$r$1"; }
grep -q " - overlay $3 " /proc/$p/mountinfo && out "$2"
grep -q " - tmpfs $3 " /proc/$p/mountinfo && out "$d"
[ ! -d "$r$d" ] || rmdir "$r$d"`
	overlayGone = `p=$(main $1) || exit 0
[ -d "/proc/$p/root/dev/.$3" ] && exit 1; grep -Eq " - (overlay|tmpfs) $3 " /proc/$p/mountinfo && exit 1; exit 0`
	tryFile = `t=/proc/$p/root$2/.$3; touch "$t" && rm "$t" && echo "a file can be made in $2"`
)

var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._@-]+)+$`)

// overlaid is the script that spoils the parameter path, in a way that the kernel answers with refusal.
func overlaid(mode, verb, refusal string) func(context.Context, *Site, target) (script, error) {
	return func(ctx context.Context, s *Site, t target) (script, error) {
		path := s.Do.Args.String("path")
		if !plainPath.MatchString(path) {
			return script{}, fmt.Errorf("path %q: want an absolute path of letters, digits and ._@-", path)
		}
		write := func(ctx context.Context, t target) (string, error) { return s.in(ctx, t, tryFile, path, s.mark()) }
		if _, err := write(ctx, t); err != nil {
			return script{}, fmt.Errorf("no file can be made in %s before anything was done: %w", path, err)
		}
		return script{
			verb: verb + " " + path + " of", do: addOverlay, back: dropOverlay, gone: overlayGone,
			args: []string{path, s.mark(), mode}, quiet: write,
			bites: func(ctx context.Context, t target) (string, error) {
				said, err := write(ctx, t)
				switch {
				case err == nil:
					return "", fmt.Errorf("%s", said)
				case !strings.Contains(err.Error(), refusal):
					return "", err
				}
				return fmt.Sprintf("a file made in %s is answered with %q", path, refusal), nil
			},
		}, nil
	}
}
