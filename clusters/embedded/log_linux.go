package embedded

import (
	"context"
	"fmt"
	"io"
	"os"
)

// WriteLog copies kubelite's log so far. It is a file without a name; kubelite keeps it open as FDLog.
func (c *Cluster) WriteLog(ctx context.Context, w io.Writer) error {
	s, err := c.status(ctx)
	if err != nil {
		return err
	}
	log, err := os.Open(fmt.Sprintf("/proc/%d/fd/%d", s.PID, FDLog))
	if err != nil {
		return fmt.Errorf("log of cluster %s: %w", c.name, err)
	}
	defer log.Close()
	_, err = io.Copy(w, log)
	return err
}
