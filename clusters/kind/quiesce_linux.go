package kind

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// quiesce waits until no docker command of this process runs any more: kind creates nodes side by side, gives up at
// the first that fails, and leaves the others to be made after it has said so.
func quiesce(ctx context.Context) {
	for ctx.Err() == nil && dockerRuns(os.Getpid()) {
		time.Sleep(50 * time.Millisecond)
	}
}

// dockerRuns says whether a process has a child called docker.
func dockerRuns(parent int) bool {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return false
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// proc(5): pid (comm) state ppid …
		open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		if open < 0 || shut < open || string(text[open+1:shut]) != "docker" {
			continue
		}
		fields := bytes.Fields(text[shut+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(parent) && fields[0][0] != 'Z' {
			return true
		}
	}
	return false
}
