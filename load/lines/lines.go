// Package lines makes the numbered, checksummed lines that sessions type, and finds them again in what a terminal
// gives back or a recording plays.
//
// A line is
//
//	~TOKEN:NUMBER:PADDING:CHECKSUM
//
// with the session's token, a decimal number from 1, letters that fill it up to its length, and the CRC-32C
// (Castagnoli) of all before the last colon in eight hexadecimal digits. Plain ASCII, because terminals and shells
// leave that as it is; one line and not a frame, because that is what a recording can be searched for.
package lines

import (
	"hash/crc32"
	"strconv"
)

// TokenLength is the number of characters of a token.
const TokenLength = 7

// alphabet is Crockford's base 32: no letters that people confuse.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Token makes a session's token from its seed.
func Token(seed uint64) string {
	var t [TokenLength]byte
	for i := range t {
		t[i] = alphabet[seed%32]
		seed /= 32
	}
	return string(t[:])
}

// crcLength is the length of the checksum in a line.
const crcLength = 8

// Append appends line n of a session to buf, with its newline, filled up to length bytes. A length too small for
// number and checksum gives the shortest line there is.
func Append(buf []byte, token string, n uint64, length int) []byte {
	start := len(buf)
	buf = append(buf, '~')
	buf = append(buf, token...)
	buf = append(buf, ':')
	buf = strconv.AppendUint(buf, n, 10)
	buf = append(buf, ':')
	fill := length - (len(buf) - start) - crcLength - len(":\n")
	for i := range fill {
		buf = append(buf, 'a'+byte((uint64(i)+n)%26))
	}
	sum := crc32.Checksum(buf[start:], castagnoli)
	buf = append(buf, ':')
	for shift := 28; shift >= 0; shift -= 4 {
		buf = append(buf, "0123456789abcdef"[sum>>shift&15])
	}
	return append(buf, '\n')
}

// Verdict is what a line turned out to be.
type Verdict int

// The verdicts. Foreign lines are not ours: prompts, messages of the day, words of the server.
const (
	Foreign Verdict = iota
	Good
	Bad // ours, but changed on the way
)

// Parse looks at one line without its newline. Text before the line's beginning is allowed, as a prompt leaves it.
func Parse(line []byte, token string) (n uint64, text []byte, v Verdict) {
	at := begin(line, token)
	if at < 0 {
		return 0, nil, Foreign
	}
	text = line[at:]
	body := len(text) - crcLength - 1
	numbered := 1 + len(token) + 1
	if body < numbered+2 || text[body] != ':' {
		return 0, text, Bad
	}
	n, ok := number(text[numbered:body])
	sum, hex := unhex(text[body+1:])
	if !ok || !hex || crc32.Checksum(text[:body], castagnoli) != sum {
		return 0, text, Bad
	}
	return n, text, Good
}

// begin finds the last beginning of a line of this session.
func begin(line []byte, token string) int {
	for i := len(line) - len(token) - 2; i >= 0; i-- {
		if line[i] == '~' && string(line[i+1:i+1+len(token)]) == token && line[i+1+len(token)] == ':' {
			return i
		}
	}
	return -1
}

// number reads digits up to a colon.
func number(text []byte) (n uint64, ok bool) {
	for i, c := range text {
		switch {
		case c == ':':
			return n, i > 0 && n > 0
		case c < '0' || c > '9' || i > 18:
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return 0, false
}

// unhex reads eight hexadecimal digits as Append writes them.
func unhex(text []byte) (sum uint32, ok bool) {
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			sum = sum<<4 | uint32(c-'0')
		case c >= 'a' && c <= 'f':
			sum = sum<<4 | uint32(c-'a'+10)
		default:
			return 0, false
		}
	}
	return sum, true
}
