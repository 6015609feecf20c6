package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// answer is what a DNS said about the IPv4 addresses of a name.
type answer struct {
	code      dnsmessage.RCode
	addresses []netip.Addr // in order
	ttl       uint32       // of the first
}

// as is the fault whose answer this is; empty for a right one, and what it is otherwise.
func (a answer) as(err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF):
		return "timeout"
	case err != nil:
		return "error"
	case a.code == dnsmessage.RCodeNameError:
		return "nxdomain"
	case a.code == dnsmessage.RCodeServerFailure:
		return "servfail"
	case a.code != dnsmessage.RCodeSuccess || len(a.addresses) == 0:
		return "nothing"
	case a.ttl == staleTTL:
		return "stale"
	}
	return ""
}

func (a answer) words(err error) string {
	switch as := a.as(err); as {
	case "timeout":
		return fmt.Sprintf("no answer within %s", seconds(dnsPatience))
	case "error":
		return err.Error()
	case "nxdomain", "servfail":
		return strings.ToUpper(as)
	case "nothing":
		return "no address (" + a.code.String() + ")"
	}
	return fmt.Sprintf("%s for %d s", list(a.addresses), a.ttl)
}

// query asks the DNS at an address for a whole name, over TCP and from inside the cluster's network.
func (w World) query(ctx context.Context, server, name string) (answer, error) {
	question, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return answer{}, fmt.Errorf("ask for %s: %w", name, err)
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 1, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: question, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := m.Pack()
	if err != nil {
		return answer{}, fmt.Errorf("ask for %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dnsPatience)
	defer cancel()
	conn, err := w.Cluster.DialContext(ctx, "tcp", net.JoinHostPort(server, "53"))
	if err != nil {
		return answer{}, fmt.Errorf("reach the DNS: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(dnsPatience)); err != nil {
		return answer{}, err
	}
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)); err != nil {
		return answer{}, err
	}
	return readAnswer(conn)
}

func readAnswer(from io.Reader) (answer, error) {
	var length [2]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return answer{}, err
	}
	data := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(from, data); err != nil {
		return answer{}, err
	}
	var m dnsmessage.Message
	if err := m.Unpack(data); err != nil {
		return answer{}, fmt.Errorf("read the answer of the DNS: %w", err)
	}
	a := answer{code: m.RCode}
	for _, r := range m.Answers {
		if body, is := r.Body.(*dnsmessage.AResource); is {
			a.addresses, a.ttl = append(a.addresses, netip.AddrFrom4(body.A)), r.Header.TTL
		}
	}
	slices.SortFunc(a.addresses, netip.Addr.Compare)
	return a, nil
}
