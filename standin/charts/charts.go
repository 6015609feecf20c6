// Package charts holds the stand-in's two Helm charts, embedded, so that one binary can install them anywhere.
package charts

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// Names of the charts, as Load takes them.
const (
	Cluster = "cluster" // auth and proxy, with the values of the teleport-cluster chart
	Agents  = "agents"  // a fleet of SSH agents, for the stand-in and for real Teleport
)

// FS has the charts' files, one folder each. "all:" because Helm's helper templates start with an underscore.
//
//go:embed all:cluster all:agents
var FS embed.FS

// Load reads a chart. Every version comes from the same templates: version sets both the chart's
// and the program's, and with them the image tag; empty keeps Chart.yaml's.
func Load(name, version string) (*chart.Chart, error) {
	files, err := files(name)
	if err != nil {
		return nil, fmt.Errorf("read chart %s: %w", name, err)
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", name, err)
	}
	if version == "" {
		return c, nil
	}
	if _, err := semver.StrictNewVersion(version); err != nil {
		return nil, fmt.Errorf("version %q of the stand-in: %w (like 1.1.0: the templates compare majors)", version, err)
	}
	c.Metadata.Version, c.Metadata.AppVersion = version, version
	return c, nil
}

func files(name string) ([]*archive.BufferedFile, error) {
	var out []*archive.BufferedFile
	err := fs.WalkDir(FS, name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := FS.ReadFile(path)
		out = append(out, &archive.BufferedFile{Name: strings.TrimPrefix(path, name+"/"), Data: data})
		return err
	})
	return out, err
}
