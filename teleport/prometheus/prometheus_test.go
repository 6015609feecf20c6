package prometheus

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func answering(t *testing.T, data string) *Source {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, data)
	}))
	t.Cleanup(server.Close)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	s, err := Open("http://prometheus.monitoring.svc:9090", dial)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestValue(t *testing.T) {
	vector := func(elements string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + elements + `]}}`
	}
	tests := []struct {
		because, data string
		want          Value
		err           string
	}{
		{"a number is one", `{"status":"success","data":{"resultType":"scalar","result":[1,"3"]}}`, Value{Found: true, Number: 3}, ""},
		{"one series has a number", vector(`{"metric":{},"value":[1,"2.5"]}`), Value{Found: true, Number: 2.5}, ""},
		{"no series is no data, not zero", vector(``), Value{}, ""},
		{"nor is NaN", vector(`{"metric":{},"value":[1,"NaN"]}`), Value{}, ""},
		{"several series are no number", vector(`{"metric":{"a":"1"},"value":[1,"1"]},{"metric":{"a":"2"},"value":[1,"1"]}`), Value{}, "2 series: put them together"},
		{"a wrong expression", `{"status":"error","errorType":"bad_data","error":"parse error"}`, Value{}, "parse error"},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			got, err := answering(t, tt.data).Value(t.Context(), "up", time.Now())
			if got.Found != tt.want.Found || got.Number != tt.want.Number || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestRange(t *testing.T) {
	s := answering(t, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"pod":"a"},"values":[[1,"1"],[2,"2"]]}]}}`)
	got, err := s.Range(t.Context(), "up", time.Unix(1, 0), time.Unix(2, 0), time.Second)
	if err != nil || len(got) != 1 || got[0].Labels["pod"] != "a" || len(got[0].Points) != 2 || got[0].Points[1].Value != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestE2EPrometheus asks a real Prometheus, if one is installed, about itself.
func TestE2EPrometheus(t *testing.T) {
	program := os.Getenv("PROMETHEUS")
	if program == "" {
		var err error
		if program, err = exec.LookPath("prometheus"); err != nil {
			t.Skip("needs the program prometheus, in $PATH or named by $PROMETHEUS")
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	folder := t.TempDir()
	config := filepath.Join(folder, "prometheus.yml")
	text := "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: self, static_configs: [{targets: ['" + address + "']}]}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s, err := Open("http://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		v, err := s.Value(t.Context(), `sum(up{job="self"})`, time.Now())
		if err == nil && v.Found && v.Number == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("up is %+v, %v", v, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	if series, err := s.Range(t.Context(), "up", time.Now().Add(-time.Minute), time.Now(), time.Second); err != nil || len(series) != 1 || len(series[0].Points) == 0 {
		t.Errorf("got %+v, %v", series, err)
	}
	if v, err := s.Value(t.Context(), "nothing_of_this_name", time.Now()); err != nil || v.Found {
		t.Errorf("a metric that does not exist gave %+v, %v", v, err)
	}
}
