package app

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// trimText lets go of the program's own read-only pages that only starting has
// touched (some 15 MB: the API's generated code initialises itself). The kernel
// maps them again from the file when they are needed. An idle process is meant to
// stay under 25 MB resident.
func trimText() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	for sc := bufio.NewScanner(maps); sc.Scan(); {
		var from, to uintptr
		var perms string
		line := sc.Text()
		if !strings.HasSuffix(line, " "+self) {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &perms); err != nil {
			continue
		}
		if strings.Contains(perms, "w") {
			continue // written pages would be lost
		}
		if err := madvise(from, to-from); err != nil {
			return err
		}
	}
	return nil
}

// madvise works on a mapping of the program itself, which no Go object owns.
func madvise(addr, size uintptr) error {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, addr, size, uintptr(unix.MADV_DONTNEED))
	if errno != 0 {
		return fmt.Errorf("madvise %x: %w", addr, errno)
	}
	return nil
}
