package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

// standinImage is what the stand-in's charts call its image.
const standinImage = "shakedown.dev/standin"

// standinSpec starts the stand-in as the image of the real one starts.
const standinSpec = `mountPath: /opt/teleport/bin
entrypoint: [/opt/teleport/bin/teleport, start, -c, /etc/teleport/teleport.yaml]
env: {PATH: "/opt/teleport/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
`

// findStandin finds the stand-in's program: the named one, beside this program,
// or in $PATH.
func findStandin(named string) (string, error) {
	if named != "" {
		_, err := os.Stat(named)
		return named, err
	}
	if self, err := os.Executable(); err == nil {
		if p := filepath.Join(filepath.Dir(self), "standin"); isFile(p) {
			return p, nil
		}
	}
	if p, err := exec.LookPath("standin"); err == nil {
		return p, nil
	}
	return "", exit.Hint(errors.New("the stand-in's program is not there"), "make build puts it into bin/, beside shakedown")
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// stageStandin lays the program out as an image of the embedded cluster, in
// dir, and returns the images to register: all tags are the same program, which
// learns from its chart which version to be.
func stageStandin(program, dir string) ([]clusters.Image, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	first := filepath.Join(dir, "standin")
	if err := copyProgram(program, first); err != nil {
		return nil, fmt.Errorf("stand-in image: %w", err)
	}
	for _, name := range []string{"teleport", "tctl"} {
		if err := os.Link(first, filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("stand-in image: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "image.yaml"), []byte(standinSpec), 0o644); err != nil {
		return nil, fmt.Errorf("stand-in image: %w", err)
	}
	return []clusters.Image{{Name: standinImage, Source: "host:" + dir}}, nil
}

// copyProgram copies rather than links: a rebuild must not change a run.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
