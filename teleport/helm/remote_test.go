package helm

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	containers "github.com/google/go-containerregistry/pkg/registry"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/registry"
)

// packed is a chart of two values as an archive in a folder.
func packed(t *testing.T, version string) (folder, file string) {
	t.Helper()
	c, err := Ref{Chart: Agents, Version: version}.Load(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	c.Metadata = &chart.Metadata{APIVersion: "v2", Name: "sample", Version: version}
	folder = t.TempDir()
	path, err := chartutil.Save(c, folder)
	if err != nil {
		t.Fatal(err)
	}
	return folder, filepath.Base(path)
}

// repository serves two versions of the chart as helm repo index lists them.
func repository(t *testing.T) string {
	t.Helper()
	index := "apiVersion: v1\nentries:\n  sample:\n"
	mux := http.NewServeMux()
	for _, version := range []string{"1.2.0", "1.1.0"} {
		folder, file := packed(t, version)
		mux.Handle("/charts/"+file, http.StripPrefix("/charts/", http.FileServer(http.Dir(folder))))
		index += fmt.Sprintf("  - {apiVersion: v2, name: sample, version: %s, urls: [%s]}\n", version, file)
	}
	mux.HandleFunc("/charts/index.yaml", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, index) })
	mux.HandleFunc("/shut/index.yaml", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// pushed serves the chart in an OCI registry.
func pushed(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(containers.New(containers.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1.1.0", "1.2.0"} {
		folder, file := packed(t, version)
		data, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Push(data, host+"/charts/sample:"+version); err != nil {
			t.Fatal(err)
		}
	}
	return "oci://" + host + "/charts/sample"
}

func TestLoadRemote(t *testing.T) {
	// Neither configuration nor cache of whoever runs the test.
	for _, name := range []string{"HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"} {
		t.Setenv(name, t.TempDir())
	}
	http, oci := repository(t), pushed(t)
	folder, file := packed(t, "1.1.0")
	for _, tt := range []struct {
		says string
		ref  Ref
		want string // version
		err  string
	}{
		{"an archive", Ref{Chart: filepath.Join(folder, file)}, "1.1.0", ""},
		{"a version of a repository", Ref{Chart: http + "/charts#sample", Version: "1.1.0"}, "1.1.0", ""},
		{"the newest of a repository", Ref{Chart: http + "/charts#sample"}, "1.2.0", ""},
		{"an archive by its address", Ref{Chart: http + "/charts/sample-1.1.0.tgz"}, "1.1.0", ""},
		{"a version of a registry", Ref{Chart: oci, Version: "1.1.0"}, "1.1.0", ""},
		{"the newest of a registry", Ref{Chart: oci}, "1.2.0", ""},
		{"an archive of another version", Ref{Chart: filepath.Join(folder, file), Version: "2.0.0"}, "", "its version is 1.1.0"},
		{"a version that a repository does not have", Ref{Chart: http + "/charts#sample", Version: "3.0.0"}, "", "such a version"},
		{"a chart that a repository does not have", Ref{Chart: http + "/charts#other"}, "", "such a chart"},
		{"a repository without the chart's name", Ref{Chart: http + "/charts"}, "", "#NAME"},
		{"a version that a registry does not have", Ref{Chart: oci, Version: "3.0.0"}, "", "such a version"},
		{"a repository that wants a login", Ref{Chart: http + "/shut#sample"}, "", "log in"},
		{"nobody is there", Ref{Chart: "http://127.0.0.1:1/charts#sample"}, "", "nothing listens there"},
		{"no registry is there", Ref{Chart: "oci://127.0.0.1:1/charts/sample"}, "", "nothing listens there"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			c, err := tt.ref.Load(t.Context(), "")
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want an error with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Metadata.Version != tt.want || c.Metadata.Name != "sample" || len(c.Templates) == 0 {
				t.Errorf("got %s %s with %d templates", c.Metadata.Name, c.Metadata.Version, len(c.Templates))
			}
		})
	}
}

func TestChartThatNeedsAValue(t *testing.T) {
	c, err := Ref{Chart: Standin, Version: "1.0.0"}.Load(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Render(c, "teleport", "lab", "", Values{}); err == nil || !strings.Contains(err.Error(), "clusterName") || !strings.Contains(err.Error(), "spec.teleport.from.values") {
		t.Errorf("got %v, want what is missing and where to give it", err)
	}
}
