package kube

import (
	"bufio"
	"encoding/binary"
	"io"
)

// maxMessage bounds one WebSocket message; longer ones are not understood any more.
const maxMessage = 16 << 20

// webSocket reads messages; the first byte of each is its channel.
func (t *tap) webSocket(r io.Reader, _ bool) {
	in := bufio.NewReader(r)
	var message []byte
	for {
		final, opcode, payload, err := readFrame(in)
		if err != nil {
			return
		}
		switch opcode {
		case 0, 1, 2: // continuation, text, binary
			if message = append(message, payload...); len(message) > maxMessage {
				return
			}
			if final && len(message) > 0 {
				t.data(int(message[0]), message[1:])
				message = nil
			}
		}
	}
}

// readFrame reads one frame (RFC 6455, 5.2), unmasked.
func readFrame(r *bufio.Reader) (final bool, opcode byte, payload []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return
	}
	final, opcode = head[0]&0x80 != 0, head[0]&0x0f
	size := uint64(head[1] & 0x7f)
	switch size {
	case 126:
		var n [2]byte
		if _, err = io.ReadFull(r, n[:]); err != nil {
			return
		}
		size = uint64(binary.BigEndian.Uint16(n[:]))
	case 127:
		var n [8]byte
		if _, err = io.ReadFull(r, n[:]); err != nil {
			return
		}
		size = binary.BigEndian.Uint64(n[:])
	}
	if size > maxMessage {
		return false, 0, nil, errFrame
	}
	var mask [4]byte
	masked := head[1]&0x80 != 0
	if masked {
		if _, err = io.ReadFull(r, mask[:]); err != nil {
			return
		}
	}
	payload = make([]byte, size)
	if _, err = io.ReadFull(r, payload); err != nil {
		return
	}
	for i := range payload {
		if !masked {
			break
		}
		payload[i] ^= mask[i%4]
	}
	return final, opcode, payload, nil
}
