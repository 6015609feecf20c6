package images

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SpecFile is the file beside a host folder's programs that says how they start.
const SpecFile = "image.yaml"

// Spec is how an image starts, as image.yaml and built-ins state it.
type Spec struct {
	Entrypoint []string          `yaml:"entrypoint"`
	Cmd        []string          `yaml:"cmd"`
	Env        map[string]string `yaml:"env"`
	User       string            `yaml:"user"`
	WorkingDir string            `yaml:"workingDir"`
	StopSignal string            `yaml:"stopSignal"`
	// MountPath is where in the container the folder appears; empty means that
	// the folder is a tree of its own, laid over the root.
	MountPath string `yaml:"mountPath"`
}

var specKeys = []string{"cmd", "entrypoint", "env", "mountPath", "stopSignal", "user", "workingDir"}

// readSpec reads dir's image.yaml; without one the zero Spec is meant.
func readSpec(dir string) (Spec, error) {
	file := filepath.Join(dir, SpecFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Spec{}, nil
	}
	if err != nil {
		return Spec{}, err
	}
	return decodeSpec(file, text)
}

// decodeSpec decodes strictly: an unknown or repeated key, a value of the wrong
// kind and a second document are errors that name the file and the line.
func decodeSpec(file string, text []byte) (Spec, error) {
	var spec Spec
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc, next yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF): // empty, or comments alone
		return spec, nil
	case err != nil:
		return spec, fmt.Errorf("%s: %w", file, err)
	}
	if err := decoder.Decode(&next); err == nil {
		return spec, fmt.Errorf("%s:%d: a second document; one is allowed", file, next.Line)
	}
	root := doc.Content[0]
	if root.Tag == "!!null" {
		return spec, nil
	}
	if err := checkKeys(file, root); err != nil {
		return spec, err
	}
	if err := doc.Decode(&spec); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", file, err)
	}
	return spec, spec.check(file, root)
}

func checkKeys(file string, root *yaml.Node) error {
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: want a mapping with the keys %s", file, root.Line, strings.Join(specKeys, ", "))
	}
	var errs []error
	seen := map[string]bool{}
	for i := 0; i < len(root.Content); i += 2 {
		key := root.Content[i]
		switch {
		case !slices.Contains(specKeys, key.Value):
			errs = append(errs, fmt.Errorf("%s:%d: unknown key %q; allowed are %s", file, key.Line, key.Value, strings.Join(specKeys, ", ")))
		case seen[key.Value]:
			errs = append(errs, fmt.Errorf("%s:%d: key %q is there twice", file, key.Line, key.Value))
		}
		seen[key.Value] = true
	}
	return errors.Join(errs...)
}

func (s Spec) check(file string, root *yaml.Node) error {
	line := func(key string) int {
		for i := 0; i < len(root.Content); i += 2 {
			if root.Content[i].Value == key {
				return root.Content[i+1].Line
			}
		}
		return root.Line
	}
	var errs []error
	for key, value := range map[string]string{"mountPath": s.MountPath, "workingDir": s.WorkingDir} {
		if value != "" && !path.IsAbs(value) {
			errs = append(errs, fmt.Errorf("%s:%d: %s %q: want an absolute path in the container", file, line(key), key, value))
		}
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			errs = append(errs, fmt.Errorf("%s:%d: env: %q is no name of a variable", file, line("env"), name))
		}
	}
	sort.Slice(errs, func(i, j int) bool { return errs[i].Error() < errs[j].Error() })
	return errors.Join(errs...)
}

// env returns the environment as the runtime wants it, in a stable order.
func (s Spec) env() []string {
	env := make([]string, 0, len(s.Env)+1)
	for name, value := range s.Env {
		env = append(env, name+"="+value)
	}
	if _, ok := s.Env["PATH"]; !ok {
		env = append(env, "PATH="+defaultPath)
	}
	slices.Sort(env)
	return env
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
