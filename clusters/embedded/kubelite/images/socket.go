package images

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// request and response are what goes over the socket, one each a call, as JSON.
type request struct {
	Name string
	Auth Auth
}

type response struct {
	List  []Info `json:",omitempty"`
	Info  Info
	Image Image
	Usage Usage
	ID    string `json:",omitempty"`

	Err      string `json:",omitempty"`
	NotFound bool   `json:",omitempty"`
}

// Serve answers the pullers that Dial made until ctx ends. Whoever may connect
// may pull: the listener's file should be its owner's alone.
func Serve(ctx context.Context, l net.Listener, p Puller) error {
	mux := http.NewServeMux()
	for method, call := range map[string]func(context.Context, request, *response) error{
		"list": func(ctx context.Context, _ request, out *response) (err error) { out.List, err = p.List(ctx); return },
		"status": func(ctx context.Context, in request, out *response) (err error) {
			out.Info, err = p.Status(ctx, in.Name)
			return
		},
		"pull": func(ctx context.Context, in request, out *response) (err error) {
			out.ID, err = p.Pull(ctx, in.Name, in.Auth)
			return
		},
		"remove": func(ctx context.Context, in request, _ *response) error { return p.Remove(ctx, in.Name) },
		"usage":  func(ctx context.Context, _ request, out *response) (err error) { out.Usage, err = p.Usage(ctx); return },
		"rootfs": func(ctx context.Context, in request, out *response) (err error) {
			out.Image, err = p.Rootfs(ctx, in.Name)
			return
		},
	} {
		mux.HandleFunc("POST /"+method, handler(call))
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve images: %w", err)
	}
	return nil
}

func handler(call func(context.Context, request, *response) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in request
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var out response
		if err := call(r.Context(), in, &out); err != nil {
			out.Err, out.NotFound = err.Error(), errors.Is(err, ErrNotFound)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // a caller who has gone needs no answer
	}
}

// Dial returns the Puller behind a socket that Serve answers. It connects when
// called, so that it may be made before the socket is there.
func Dial(path string) Puller {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
		IdleConnTimeout: time.Minute,
	}
	return &client{http.Client{Transport: transport}}
}

type client struct{ http http.Client }

// remoteError is the other side's error, in its words.
type remoteError struct {
	text     string
	notFound bool
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Is(target error) bool {
	return e.notFound && target == ErrNotFound
}

func (c *client) call(ctx context.Context, method string, in request) (response, error) {
	var out response
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://images/"+method, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return out, fmt.Errorf("image store: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("image store: %s: %s", method, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("image store: %s: %w", method, err)
	}
	if out.Err != "" {
		return out, &remoteError{out.Err, out.NotFound}
	}
	return out, nil
}

func (c *client) List(ctx context.Context) ([]Info, error) {
	out, err := c.call(ctx, "list", request{})
	return out.List, err
}

func (c *client) Status(ctx context.Context, name string) (Info, error) {
	out, err := c.call(ctx, "status", request{Name: name})
	return out.Info, err
}

func (c *client) Pull(ctx context.Context, name string, auth Auth) (string, error) {
	out, err := c.call(ctx, "pull", request{Name: name, Auth: auth})
	return out.ID, err
}

func (c *client) Remove(ctx context.Context, name string) error {
	_, err := c.call(ctx, "remove", request{Name: name})
	return err
}

func (c *client) Usage(ctx context.Context) (Usage, error) {
	out, err := c.call(ctx, "usage", request{})
	return out.Usage, err
}

func (c *client) Rootfs(ctx context.Context, name string) (Image, error) {
	out, err := c.call(ctx, "rootfs", request{Name: name})
	return out.Image, err
}
