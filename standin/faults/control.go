package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// SocketName is the control socket's file in the data directory.
const SocketName = "standin.sock"

// RecordName is the private record's file in the data directory.
const RecordName = "standin-faults.jsonl"

// Control serves a registry on a unix socket that only its owner may open.
type Control struct {
	server *http.Server
	path   string
}

// Serve listens on the socket in dir. Paths of unix sockets are short: where dir
// is too long there is no control, and the error says so.
func Serve(dir string, r *Registry) (*Control, error) {
	path := filepath.Join(dir, SocketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lis, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for fault control: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	c := &Control{server: &http.Server{Handler: Handler(r), ReadHeaderTimeout: 10 * time.Second}, path: path}
	go func() { _ = c.server.Serve(lis) }()
	return c, nil
}

// Close stops the control and removes its socket.
func (c *Control) Close() error { return c.server.Close() }

// Handler is the control's API: GET and PUT /faults, DELETE /faults/{name},
// GET /record.
func Handler(r *Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { reply(w, r.Rules()) })
	mux.HandleFunc("GET /record", func(w http.ResponseWriter, _ *http.Request) { reply(w, r.Entries()) })
	mux.HandleFunc("PUT /faults", func(w http.ResponseWriter, req *http.Request) {
		var rule Rule
		err := json.NewDecoder(http.MaxBytesReader(w, req.Body, 1<<16)).Decode(&rule)
		if err == nil {
			_, err = ParseName(string(rule.Name))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Set(rule)
		reply(w, r.Rules())
	})
	mux.HandleFunc("DELETE /faults/{name}", func(w http.ResponseWriter, req *http.Request) {
		name, err := ParseName(req.PathValue("name"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Clear(name)
		reply(w, r.Rules())
	})
	return mux
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// Remote is the control of another process, by its data directory.
type Remote struct{ client http.Client }

// Dial makes a Remote; it does not connect yet.
func Dial(dir string) *Remote {
	path := filepath.Join(dir, SocketName)
	return &Remote{http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}}
}

// Set puts a rule in force.
func (r *Remote) Set(ctx context.Context, rule Rule) error {
	b, err := json.Marshal(rule)
	if err != nil {
		return err
	}
	return r.call(ctx, http.MethodPut, "/faults", b, nil)
}

// Clear ends a fault.
func (r *Remote) Clear(ctx context.Context, name Name) error {
	return r.call(ctx, http.MethodDelete, "/faults/"+string(name), nil, nil)
}

// Rules lists the rules in force.
func (r *Remote) Rules(ctx context.Context) (rules []Rule, err error) {
	return rules, r.call(ctx, http.MethodGet, "/faults", nil, &rules)
}

// Record reads what was really done.
func (r *Remote) Record(ctx context.Context) (entries []Entry, err error) {
	return entries, r.call(ctx, http.MethodGet, "/record", nil, &entries)
}

func (r *Remote) call(ctx context.Context, method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://standin"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("fault control: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("fault control: %s", bytes.TrimSpace(text))
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// FileSink appends each entry to the private record in dir.
func FileSink(dir string) (func(Entry), error) {
	f, err := os.OpenFile(filepath.Join(dir, RecordName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open record of faults: %w", err)
	}
	return func(e Entry) {
		if b, err := json.Marshal(e); err == nil {
			_, _ = f.Write(append(b, '\n'))
		}
	}, nil
}
