// Package loopback finds addresses for servers of other processes, which have to be told where to listen.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are looked for below the range that systems take ports of clients from (Linux: 32768 and up): between the
// finding and the using, a connection of anybody's could take one of those.
const (
	lowest  = 10000
	highest = 32000 // not counted in
)

// Addresses finds n addresses of loopback that nobody listens on, no two alike. Who needs several asks for all of
// them at once: nothing keeps one that was found before from being found again.
func Addresses(n int) ([]string, error) {
	const tries = 1000
	var out []string
	var last error
	for range tries + n {
		if len(out) == n {
			return out, nil
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+rand.IntN(highest-lowest)))) //nolint:gosec // any will do
		if err != nil {
			last = err
			continue
		}
		defer l.Close() // held until all are found, so that none is found twice
		out = append(out, l.Addr().String())
	}
	if len(out) == n {
		return out, nil
	}
	return nil, fmt.Errorf("find %d free ports between %d and %d: %w", n, lowest, highest, last)
}
