package sshutil

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseProxyRequest(t *testing.T) {
	for _, tc := range []struct {
		why, name string
		want      ProxyRequest
		err       string
	}{
		{why: "host and port alone stay in the proxy's cluster", name: "proxy:web:22", want: ProxyRequest{Host: "web", Port: "22"}},
		{why: "a cluster may follow", name: "proxy:web:0@main", want: ProxyRequest{Host: "web", Port: "0", Cluster: "main"}},
		{why: "a namespace is ignored", name: "proxy:web:22@default@main", want: ProxyRequest{Host: "web", Port: "22", Cluster: "main"}},
		{why: "a cluster may hold an at sign", name: "proxy:web:22@default@a@b", want: ProxyRequest{Host: "web", Port: "22", Cluster: "a@b"}},
		{why: "no host is the auth service", name: "proxy:@main", want: ProxyRequest{Cluster: "main"}},
		{why: "IPv6 in brackets", name: "proxy:[::1]:3022", want: ProxyRequest{Host: "::1", Port: "3022"}},
		{why: "neither host nor cluster", name: "proxy:@", err: `invalid format for proxy request: missing cluster name or target host in "proxy:@"`},
		{why: "no port", name: "proxy:web", err: `invalid format for proxy request: "proxy:web", expected 'proxy:host:port@cluster'`},
		{why: "nothing", name: "proxy:", err: `invalid format for proxy request: "proxy:", expected 'proxy:host:port@cluster'`},
		{why: "another subsystem", name: "sftp", err: `invalid format for proxy request: "sftp", expected 'proxy:host:port@cluster'`},
	} {
		t.Run(tc.why, func(t *testing.T) {
			got, err := ParseProxyRequest(tc.name)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if msg := text(err); msg != tc.err {
				t.Errorf("error %q, want %q", msg, tc.err)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
