// Package rpc is the wire between the stand-in's own parts: the codec of all
// gRPC traffic and the private service beside the real AuthService.
package rpc

import (
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Codec marshals the API's generated messages by their own methods, because the
// way through protobuf reflection costs megabytes at start, other protobuf
// messages as usual, and the private service's structs as JSON.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name is the codec's content subtype; it is the standard one, so that clients
// from outside need not know of it.
func (Codec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	b, err := marshal(v)
	if err != nil {
		return nil, fmt.Errorf("marshal %T: %w", v, err)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func marshal(v any) ([]byte, error) {
	switch m := v.(type) {
	case interface{ Marshal() ([]byte, error) }:
		return m.Marshal()
	case proto.Message:
		return proto.Marshal(m)
	}
	return json.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	b := data.Materialize()
	switch m := v.(type) {
	case interface{ Unmarshal([]byte) error }:
		return m.Unmarshal(b)
	case proto.Message:
		return proto.Unmarshal(b, m)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("unmarshal %T: %w", v, err)
	}
	return nil
}
