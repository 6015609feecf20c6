package sshutil

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestCopyKeepsEveryByte(t *testing.T) {
	buffers := NewBuffers()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 0, 3*largeBuffer).Draw(t, "data")
		var src io.Reader = bytes.NewReader(want)
		if rapid.Bool().Draw(t, "data with EOF") {
			src = iotest.DataErrReader(src)
		}
		var got bytes.Buffer
		n, err := buffers.Copy(&got, src)
		if err != nil || n != int64(len(want)) || !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("copied %d of %d bytes, err %v", n, len(want), err)
		}
	})
}

func TestJoinPassesHalfClose(t *testing.T) {
	client, left := tcpPair(t)
	right, server := tcpPair(t)
	go NewBuffers().Join(left, right)

	client.Write([]byte("question"))
	client.(*net.TCPConn).CloseWrite()
	got, _ := io.ReadAll(server)
	if string(got) != "question" {
		t.Fatalf("server read %q", got)
	}
	server.Write([]byte("answer"))
	server.Close()
	if got, _ = io.ReadAll(client); string(got) != "answer" {
		t.Fatalf("client read %q after its half-close", got)
	}
}

func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}
