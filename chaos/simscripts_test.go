package chaos

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"golang.org/x/net/dns/dnsmessage"
)

// addressOf is a pod's address, for as long as it lives.
func addressOf(uid types.UID) string {
	n, _ := strconv.ParseUint(hash(string(uid)), 16, 32)
	return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
}

// misconfigured says whether a configuration that the pod mounts does not parse.
func (s *sim) misconfigured(p *corev1.Pod) bool {
	for _, v := range p.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		m, err := s.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), p.Namespace, v.ConfigMap.Name)
		if err != nil || strings.Contains(m.(*corev1.ConfigMap).Data["teleport.yaml"], unparsable) {
			return true
		}
	}
	return false
}

// running is the pod of a container that runs, or nil.
func (s *sim) running(container string) *corev1.Pod {
	for _, p := range s.pods() {
		for _, c := range p.Status.ContainerStatuses {
			if strings.HasSuffix(c.ContainerID, "://"+container) && s.states[p.Spec.NodeName] != "killed" {
				return &p
			}
		}
	}
	return nil
}

// spoilers are the scripts that change a container, with those that change it back and that look.
var spoilers = []struct{ name, do, back, gone string }{
	{"overlay", addOverlay, dropOverlay, overlayGone},
	{"stress", addStress, dropStress, stressGone},
	{"slow", addSlow, dropSlow, slowGone},
	{"clock", "which=code\n" + eachPatch + patchClock, "which=back\n" + eachPatch + patchClock, eachPatch + clockBack},
}

// other are the scripts about one container, and about the DNS.
func (s *sim) other(script string, args []string, out io.Writer) (exit int) {
	for _, x := range spoilers {
		key := ""
		if len(args) > 0 {
			key = x.name + " " + args[0]
		}
		switch {
		case strings.HasSuffix(script, x.do):
			if s.running(args[0]) == nil {
				return 1
			}
			s.spoils[key] = args
			return 0
		case strings.HasSuffix(script, x.back):
			delete(s.spoils, key)
			return 0
		case strings.HasSuffix(script, x.gone):
			return boolInt(s.spoils[key] != nil && s.running(args[0]) != nil)
		}
	}
	switch {
	case strings.Contains(script, "kill -$2"):
		s.restarts[args[0]]++
	case script == addDNS:
		s.dns[args[0]] = args[1]
	case script == dropDNS:
		delete(s.dns, args[0])
	case script == dnsGone:
		_, there := s.dns[args[0]]
		return boolInt(there)
	case len(args) > 0 && strings.HasPrefix(script, "LC_ALL=C") || strings.Contains(script, "main $1 >/dev/null"):
		return s.look(script, args, out)
	}
	return 0
}

// look is what the scripts that only look see in a container.
func (s *sim) look(script string, args []string, out io.Writer) (exit int) {
	if s.running(args[0]) == nil {
		return 1
	}
	id := args[0]
	switch {
	case strings.HasSuffix(script, tryFile):
		if x := s.spoils["overlay "+id]; x != nil {
			fmt.Fprint(out, map[string]string{"rw": "No space left on device", "ro": "Read-only file system"}[x[3]])
			return 1
		}
	case strings.HasSuffix(script, lookStress):
		if x := s.spoils["stress "+id]; x != nil {
			bytes, _ := strconv.Atoi(x[3])
			fmt.Fprintln(out, x[2], 50, bytes/1024, 13, 10)
			return 0
		}
		fmt.Fprintln(out, 0, 0, 0, 1000, 10)
	case strings.HasSuffix(script, countStops):
		fmt.Fprint(out, 17*boolInt(s.spoils["slow "+id] != nil))
	case strings.HasSuffix(script, listening):
		fmt.Fprintln(out, "LISTEN 0 4096 *:8080 *:*")
	}
	return 0
}

// blocks are what stands in front of the rest, also of a DNS that has its configuration from a ConfigMap.
func (s *sim) blocks() []string {
	out := slices.Collect(maps.Values(s.dns))
	m, err := s.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), "kube-system", "coredns")
	if err == nil && strings.Contains(m.(*corev1.ConfigMap).Data[corefile], "view ") {
		out = append(out, m.(*corev1.ConfigMap).Data[corefile])
	}
	return out
}

// serve is a connection whose other end answers.
func (s *sim) serve(answer func(net.Conn)) net.Conn {
	a, b := net.Pipe()
	go func() {
		defer b.Close()
		answer(b)
	}()
	return a
}

// answerHTTP tells the time of a pod.
func (s *sim) answerHTTP(host string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		date := time.Now()
		s.mu.Lock()
		for key, args := range s.spoils {
			p := s.running(args[0])
			if strings.HasPrefix(key, "clock ") && p != nil && p.Status.PodIP == host {
				date = date.Add(10 * time.Minute)
			}
		}
		s.mu.Unlock()
		fmt.Fprintf(conn, "HTTP/1.0 200 OK\r\nDate: %s\r\n\r\n", date.UTC().Format(http.TimeFormat))
	}
}

var blockNames = regexp.MustCompile(`matches '(.*)'`)

// answerDNS knows the Services, unless a block in front says otherwise.
func (s *sim) answerDNS(conn net.Conn) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return
	}
	data := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, data); err != nil {
		return
	}
	var m dnsmessage.Message
	must(m.Unpack(data))
	name := m.Questions[0].Name
	m.Response = true
	ttl := uint32(5)
	if label, _, _ := strings.Cut(name.String(), "."); !slices.Contains([]string{"proxy", "auth", "agent"}, label) {
		m.RCode = dnsmessage.RCodeNameError
	}
	s.mu.Lock()
	for _, block := range s.blocks() {
		names := regexp.MustCompile(strings.ReplaceAll(blockNames.FindStringSubmatch(block)[1], `\\`, `\`))
		switch {
		case !names.MatchString(name.String()):
		case strings.Contains(block, "drop"):
			s.mu.Unlock()
			return
		case strings.Contains(block, "hosts"):
			ttl = staleTTL
		case strings.Contains(block, "NXDOMAIN"):
			m.RCode = dnsmessage.RCodeNameError
		default:
			m.RCode = dnsmessage.RCodeServerFailure
		}
	}
	s.mu.Unlock()
	if m.RCode == dnsmessage.RCodeSuccess {
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: ttl}, Body: &dnsmessage.AResource{A: [4]byte{10, 96, 0, 1}}}}
	}
	packed, err := m.Pack()
	must(err)
	_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
}
