//go:build !linux

package run

import (
	"runtime"

	"shakedown.dev/shakedown/history"
)

func machine() history.Machine {
	return history.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()}
}
