// Package deptest reads which package of this module imports which, so that a test can hold the
// direction of imports that the design asks for. It reads import lines only: it works on a tree that
// does not compile, and takes milliseconds.
package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of this module.
const Module = "shakedown.dev/shakedown"

// Graph has, for each package of the module, what its files import: packages of the module as their
// folder ("internal/cli"), all others by their path. Test files are left out: a test may look further.
type Graph map[string][]string

// Load reads the module in the folder root. Nested modules and testdata are not part of it.
func Load(root string) (Graph, error) {
	g := Graph{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skip(root, file, entry)
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		return g.add(filepath.ToSlash(folder), file)
	})
	return g, err
}

func skip(root, dir string, entry fs.DirEntry) error {
	if dir == root {
		return nil
	}
	name := entry.Name()
	if name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

func (g Graph) add(folder, file string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, spec := range parsed.Imports {
		imported, err := importPath(spec)
		if err != nil {
			return err
		}
		if !slices.Contains(g[folder], imported) {
			g[folder] = append(g[folder], imported)
		}
	}
	return nil
}

func importPath(spec *ast.ImportSpec) (string, error) {
	imported, err := strconv.Unquote(spec.Path.Value)
	if ours, ok := strings.CutPrefix(imported, Module+"/"); ok {
		return ours, err
	}
	return imported, err
}

// Way is the shortest chain of imports from a package below the folder from to anything below one of
// the paths to, or nil. Below means the path itself and what follows it after a slash.
func (g Graph) Way(from string, to ...string) []string {
	var queue [][]string
	seen := map[string]bool{}
	for folder := range g {
		if Below(folder, from) {
			queue = append(queue, []string{folder})
			seen[folder] = true
		}
	}
	slices.SortFunc(queue, slices.Compare)
	for len(queue) > 0 {
		way := queue[0]
		queue = queue[1:]
		for _, next := range g[way[len(way)-1]] {
			longer := append(slices.Clone(way), next)
			if slices.ContainsFunc(to, func(t string) bool { return Below(next, t) && !Below(next, from) }) {
				return longer
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, longer)
			}
		}
	}
	return nil
}

// Below reports whether the import path is the folder or in it.
func Below(imported, folder string) bool {
	return imported == folder || strings.HasPrefix(imported, path.Clean(folder)+"/")
}
