package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	remote "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"
)

// maxSyncOutput is how much of each stream ExecSync returns, 16 MiB as in containerd.
const maxSyncOutput = 16 << 20

// ExecSync runs a command and returns its output. A code other than 0 is a
// utilexec.ExitError; after timeout (0: never) the command and all it started are
// killed, and the error is remote.ErrCommandTimedOut: what the kubelet's probes
// look for.
func (r *Runtime) ExecSync(ctx context.Context, id string, argv []string, timeout time.Duration) ([]byte, []byte, error) {
	var stdout, stderr limitedBuffer
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, remote.ErrCommandTimedOut)
		defer cancel()
	}
	code, err := r.exec(ctx, id, command{argv: argv, stdout: &stdout, stderr: &stderr})
	switch {
	case errors.Is(err, remote.ErrCommandTimedOut):
		return nil, nil, fmt.Errorf("%w: %q timed out after %s", remote.ErrCommandTimedOut, strings.Join(argv, " "), timeout)
	case err != nil:
		return nil, nil, err
	case code != 0:
		err = utilexec.CodeExitError{
			Err:  fmt.Errorf("command '%s' exited with %d: %s", strings.Join(argv, " "), code, stderr.Bytes()),
			Code: int(code),
		}
	}
	return stdout.Bytes(), stderr.Bytes(), err
}

// limitedBuffer drops what is past maxSyncOutput.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := maxSyncOutput - b.Len(); len(p) > room {
		b.Buffer.Write(p[:room])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
