package scenarios

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed catalogue
var catalogue embed.FS

// Listed is a scenario of the catalogue.
type Listed struct {
	Name        string
	Description string
	Source      string
}

// List gives the catalogue in the order of its names.
func List() ([]Listed, error) {
	files, err := fs.Glob(catalogue, "catalogue/*.yaml")
	if err != nil {
		return nil, err
	}
	var list []Listed
	for _, file := range files {
		s, err := Get(strings.TrimSuffix(path.Base(file), ".yaml"), Options{})
		if err != nil {
			return nil, err
		}
		list = append(list, Listed{s.Name, s.Description, s.Source})
	}
	return list, nil
}

// Get decodes a scenario of the catalogue.
func Get(name string, opts Options) (*Scenario, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	if opts.Files == nil {
		opts.Files, _ = fs.Sub(catalogue, "catalogue") // the path is valid: cannot fail
	}
	return Decode("catalogue/"+name+".yaml", text, opts)
}

// Text is the file of a scenario of the catalogue, for scenario.yaml of a run
// and for people who want to change it.
func Text(name string) ([]byte, error) {
	text, err := catalogue.ReadFile("catalogue/" + name + ".yaml")
	if err == nil {
		return text, nil
	}
	files, _ := fs.Glob(catalogue, "catalogue/*.yaml")
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	p := Problem{File: name, Message: "there is no such scenario in the catalogue", Nearest: nearest(name, names), Allowed: names}
	return nil, fmt.Errorf("%s", p)
}
