package shim

import "syscall"

// Arg0 is the argv[0] that turns any binary importing this package into the shim.
const Arg0 = "shakedown-shim"

// File descriptors the shim is started with, beside the program's own 0, 1, 2.
const (
	SpecFD   = 3 // read end: the encoded Spec, until end of file
	StatusFD = 4 // write end: an error message, or end of file once the program runs
)

// Spec says what the shim does before execve. Its working directory at start is
// the container's root, a mount point of its own mount namespace.
type Spec struct {
	Pause    bool     // be the reaper of a pod's shared PID namespace, run nothing
	Proc     bool     // mount a new proc on /proc
	Cgroups  []string // controllers to mount under /sys/fs/cgroup; "" is the unified hierarchy
	Masked   []string // absolute paths hidden from the program
	ReadOnly []string // absolute paths made read-only

	Path string // absolute path of the program, inside the root
	Argv []string
	Env  []string
	Dir  string // working directory

	UID, GID    uint32
	Groups      []uint32
	Bounding    uint64 // capability bounding set, one bit each
	NoNewPrivs  bool
	OOMScoreAdj int // raised to this; never lowered

	inDir bool // Dir has been entered; not encoded
}

// Encode gives the form that the shim reads: one letter and one value per
// record, each closed by NUL, which no path, argument or variable can contain.
func (s *Spec) Encode() []byte {
	var b []byte
	add := func(key byte, values ...string) {
		for _, v := range values {
			b = append(append(append(b, key), v...), 0)
		}
	}
	add('P', flag(s.Pause))
	add('p', flag(s.Proc))
	add('n', flag(s.NoNewPrivs))
	add('c', s.Cgroups...)
	add('m', s.Masked...)
	add('r', s.ReadOnly...)
	add('x', s.Path)
	add('a', s.Argv...)
	add('e', s.Env...)
	add('d', s.Dir)
	add('u', utoa(uint64(s.UID)))
	add('g', utoa(uint64(s.GID)))
	for _, g := range s.Groups {
		add('G', utoa(uint64(g)))
	}
	add('b', utoa(s.Bounding))
	if s.OOMScoreAdj > 0 {
		add('o', utoa(uint64(s.OOMScoreAdj)))
	}
	return b
}

// Decode is the inverse of Encode.
func Decode(b []byte) (*Spec, error) {
	s := &Spec{}
	for len(b) > 0 {
		end := 1
		for end < len(b) && b[end] != 0 {
			end++
		}
		if end >= len(b) {
			return nil, syscall.EINVAL
		}
		if err := s.set(b[0], string(b[1:end])); err != nil {
			return nil, err
		}
		b = b[end+1:]
	}
	return s, nil
}

func (s *Spec) set(key byte, v string) error {
	var n uint64
	switch key {
	case 'u', 'g', 'G', 'b', 'o':
		var ok bool
		if n, ok = atou(v); !ok {
			return syscall.EINVAL
		}
	}
	switch key {
	case 'P':
		s.Pause = v == "1"
	case 'p':
		s.Proc = v == "1"
	case 'n':
		s.NoNewPrivs = v == "1"
	case 'c':
		s.Cgroups = append(s.Cgroups, v)
	case 'm':
		s.Masked = append(s.Masked, v)
	case 'r':
		s.ReadOnly = append(s.ReadOnly, v)
	case 'x':
		s.Path = v
	case 'a':
		s.Argv = append(s.Argv, v)
	case 'e':
		s.Env = append(s.Env, v)
	case 'd':
		s.Dir = v
	case 'u':
		s.UID = uint32(n)
	case 'g':
		s.GID = uint32(n)
	case 'G':
		s.Groups = append(s.Groups, uint32(n))
	case 'b':
		s.Bounding = n
	case 'o':
		s.OOMScoreAdj = int(n)
	default:
		return syscall.EINVAL
	}
	return nil
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// utoa and atou stand in for strconv, whose import would delay the init.
func utoa(n uint64) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}

func atou(s string) (n uint64, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return n, len(s) > 0
}
