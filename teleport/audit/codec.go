package audit

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec marshals Teleport's messages by their generated methods: they are of gogo/protobuf, whose extensions
// (times, embedded messages) the standard codec's reflection does not know.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	var b []byte
	var err error
	switch m := v.(type) {
	case interface{ Marshal() ([]byte, error) }:
		b, err = m.Marshal()
	case proto.Message:
		b, err = proto.Marshal(m)
	default:
		err = fmt.Errorf("%T is no protobuf message", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case interface{ Unmarshal([]byte) error }:
		return m.Unmarshal(data.Materialize())
	case proto.Message:
		return proto.Unmarshal(data.Materialize(), m)
	}
	return fmt.Errorf("%T is no protobuf message", v)
}
