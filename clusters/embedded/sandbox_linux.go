package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// sandbox runs a shell script in namespaces like those of a cluster, which end with it.
func sandbox(ctx context.Context, script string) error {
	ctx, cancel := context.WithTimeout(ctx, sandboxLimit)
	defer cancel()
	// The shell waits for a line: until its id maps are written it is nobody.
	cmd := exec.CommandContext(ctx, "/bin/sh", "-ec", "read go; mount --make-rprivate /; "+script)
	cmd.Env = append(os.Environ(), "PATH="+childPath(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	userNS := isolate(cmd.SysProcAttr)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return explainClone(err, userNS)
	}
	if userNS {
		err = mapIDs(cmd.Process.Pid)
	}
	if err == nil {
		_, err = stdin.Write([]byte("\n"))
	}
	err = errors.Join(err, stdin.Close())
	if waited := cmd.Wait(); waited != nil && err == nil {
		err = waited
	}
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		return fmt.Errorf("refused: %s", firstLine(text))
	}
	return err
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
