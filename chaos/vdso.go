package chaos

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"
)

// The vDSO is the code that the kernel lays into every process so that it can ask for the time without a
// system call (vdso(7)). Its pages are the process's own as soon as they are written to, so that a few
// instructions at the beginning of its functions are another clock for that process alone.

// patch is code for one function of the vDSO.
type patch struct {
	offset     int // from the beginning of the vDSO
	code, back []byte
}

// clockPatches shift the wall clock of a process by whole seconds. They are made from the vDSO of this
// process, which is that of all processes of this machine with the same word size.
func clockPatches(by time.Duration) ([]patch, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("the code that shifts a process's clock is written for linux/amd64, not for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	image, err := vdso()
	if err != nil {
		return nil, fmt.Errorf("read the vDSO: %w", err)
	}
	return patchesFor(image, by)
}

func patchesFor(image []byte, by time.Duration) ([]patch, error) {
	seconds := by / time.Second
	if seconds == 0 || by%time.Second != 0 || seconds > math.MaxInt32 || seconds < math.MinInt32 {
		return nil, fmt.Errorf("by %s: want whole seconds, at least one", by)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("read the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("read the vDSO: %w", err)
	}
	code := shifted(int32(seconds))
	var out []patch
	for _, s := range symbols {
		c, want := code[s.Name]
		if !want {
			continue
		}
		if int(s.Size) < len(c) || int(s.Value)+len(c) > len(image) {
			return nil, fmt.Errorf("%s of the vDSO has %d bytes, %d are needed", s.Name, s.Size, len(c))
		}
		out = append(out, patch{int(s.Value), c, bytes.Clone(image[s.Value : int(s.Value)+len(c)])})
	}
	if len(out) != len(code) {
		return nil, fmt.Errorf("the vDSO has %d of the %d functions that tell the time", len(out), len(code))
	}
	return out, nil
}

// shifted is the machine code of the functions: the system call itself, and seconds added to its answer.
func shifted(seconds int32) map[string][]byte {
	n := binary.LittleEndian.AppendUint32(nil, uint32(seconds))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	return map[string][]byte{
		"__vdso_clock_gettime": join(
			[]byte{0xb8, 228, 0, 0, 0, 0x0f, 0x05}, // mov eax, SYS_clock_gettime; syscall
			[]byte{0x85, 0xff, 0x74, 0x05},         // test edi, edi; jz add: CLOCK_REALTIME
			[]byte{0x83, 0xff, 0x05, 0x75, 0x07},   // cmp edi, 5; jne return: CLOCK_REALTIME_COARSE
			[]byte{0x48, 0x81, 0x06}, n,            // add: add qword [rsi], n
			[]byte{0xc3}, // return: ret
		),
		"__vdso_gettimeofday": join(
			[]byte{0xb8, 96, 0, 0, 0, 0x0f, 0x05},     // mov eax, SYS_gettimeofday; syscall
			[]byte{0x48, 0x85, 0xff, 0x74, 0x07},      // test rdi, rdi; jz return
			[]byte{0x48, 0x81, 0x07}, n, []byte{0xc3}, // add qword [rdi], n; return: ret
		),
		"__vdso_time": join(
			[]byte{0x57, 0x31, 0xff},               // push rdi; xor edi, edi
			[]byte{0xb8, 201, 0, 0, 0, 0x0f, 0x05}, // mov eax, SYS_time; syscall
			[]byte{0x48, 0x05}, n,                  // add rax, n
			[]byte{0x5f, 0x48, 0x85, 0xff},             // pop rdi; test rdi, rdi
			[]byte{0x74, 0x03, 0x48, 0x89, 0x07, 0xc3}, // jz return; mov [rdi], rax; return: ret
		),
	}
}

// vdso is the vDSO of this process.
func vdso() ([]byte, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		var from, to int64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			return nil, err
		}
		memory, err := os.Open("/proc/self/mem")
		if err != nil {
			return nil, err
		}
		defer memory.Close()
		image := make([]byte, to-from)
		_, err = memory.ReadAt(image, from)
		return image, err
	}
	return nil, errors.New("this process has none")
}
