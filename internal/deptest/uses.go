package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Uses are the places ("folder/file.go:12 os.Exit") below root, test files left out, that name one of
// the identifiers of the standard library package pkg. A renamed import escapes it.
func Uses(root, pkg string, names ...string) ([]string, error) {
	var places []string
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
		found, err := usesIn(file, pkg, names)
		for _, place := range found {
			relative, _ := filepath.Rel(root, file)
			places = append(places, filepath.ToSlash(relative)+place)
		}
		return err
	})
	return places, err
}

func usesIn(file, pkg string, names []string) ([]string, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		return nil, err
	}
	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, selector.Sel.Name) {
			return true
		}
		if ident, ok := selector.X.(*ast.Ident); ok && ident.Name == pkg {
			line := set.Position(n.Pos()).String()[len(file):]
			found = append(found, line+" "+pkg+"."+selector.Sel.Name)
		}
		return true
	})
	return found, nil
}
