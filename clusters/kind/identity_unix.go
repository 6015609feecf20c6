//go:build unix

package kind

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identity tells files with several names; empty for one with a single name.
func identity(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Nlink < 2 {
		return ""
	}
	return fmt.Sprint(st.Dev, ":", st.Ino)
}
