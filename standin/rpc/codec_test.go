package rpc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gravitational/teleport/api/client/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestCodec(t *testing.T) {
	for _, row := range []struct {
		name      string
		in, blank any
		check     func(any) any
		want      any
	}{
		{"messages of the API", &proto.PingResponse{ClusterName: "c"}, &proto.PingResponse{}, func(v any) any { return v.(*proto.PingResponse).ClusterName }, "c"},
		{"other protobuf messages", wrapperspb.String("s"), &wrapperspb.StringValue{}, func(v any) any { return v.(*wrapperspb.StringValue).Value }, "s"},
		{"structs of our own", &ServersRequest{Kind: "node"}, &ServersRequest{}, func(v any) any { return v.(*ServersRequest).Kind }, "node"},
		{"bytes as they are", &Chunk{Data: []byte("\x00raw")}, &Chunk{}, func(v any) any { return string(v.(*Chunk).Data) }, "\x00raw"},
	} {
		t.Run(row.name, func(t *testing.T) {
			wire, err := Codec{}.Marshal(row.in)
			if err != nil {
				t.Fatal(err)
			}
			if err := (Codec{}).Unmarshal(wire, row.blank); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, row.check(row.blank)); diff != "" {
				t.Error(diff)
			}
		})
	}
	wire, _ := Codec{}.Marshal(&Chunk{Data: []byte("{")})
	if err := (Codec{}).Unmarshal(wire, &ServersRequest{}); err == nil {
		t.Error("broken JSON is taken")
	}
}
