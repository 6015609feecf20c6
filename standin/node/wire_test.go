package node

import (
	"io"
	"net"
	"testing"
)

func TestWireTakesTheHelloOff(t *testing.T) {
	const version = "SSH-2.0-OpenSSH_9.0\r\n"
	hello := `Teleport-Proxy{"clientAddr":"10.1.2.3:4567","tracingContext":{}}` + "\x00"
	for _, tc := range []struct {
		why    string
		writes []string
		remote string
	}{
		{"without a hello the peer is the client", []string{version}, "pipe"},
		{"a hello names the client", []string{hello, version}, "10.1.2.3:4567"},
		{"it may come with what follows", []string{hello + version}, "10.1.2.3:4567"},
		{"and in pieces", []string{hello[:20], hello[20:] + version[:3], version[3:]}, "10.1.2.3:4567"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			ours, theirs := net.Pipe()
			w := newWire(ours)
			go func() {
				for _, s := range tc.writes {
					io.WriteString(theirs, s)
				}
			}()
			buf := make([]byte, len(version))
			if _, err := io.ReadFull(w, buf); err != nil || string(buf) != version {
				t.Errorf("read %q, %v", buf, err)
			}
			if got := w.RemoteAddr().String(); got != tc.remote {
				t.Errorf("remote address %s, want %s", got, tc.remote)
			}
		})
	}
}
