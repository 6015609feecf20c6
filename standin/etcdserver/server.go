// Package etcdserver serves the part of etcd's KV API that the stand-in's auths
// need to share their state, so that two auths can run where no etcd is to be
// had. It has one member, no watches, no leases and no history; an etcd takes
// its place without any change.
package etcdserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/state"
)

// Server is the key-value store. Every change is on disk before it is answered.
type Server struct {
	pb.UnimplementedKVServer

	mu       sync.Mutex
	store    *state.Local
	keys     []string // sorted
	values   map[string]*mvccpb.KeyValue
	revision int64
	grpc     *grpc.Server
}

// A stored value is three numbers (creation, modification, version) and the value
// itself, so that the journal's copy in memory serves as the value too.
const head = 24

func pack(kv *mvccpb.KeyValue) []byte {
	b := make([]byte, 0, head+len(kv.Value))
	for _, n := range []int64{kv.CreateRevision, kv.ModRevision, kv.Version} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return append(b, kv.Value...)
}

func unpack(key string, b []byte) (*mvccpb.KeyValue, error) {
	if len(b) < head {
		return nil, fmt.Errorf("read %s: %d bytes are too few", key, len(b))
	}
	number := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	return &mvccpb.KeyValue{Key: []byte(key), Value: b[head:], CreateRevision: number(0), ModRevision: number(1), Version: number(2)}, nil
}

// Open reads the store in dir, or makes it.
func Open(dir string) (*Server, error) {
	store, err := state.OpenLocal(dir)
	if err != nil {
		return nil, err
	}
	s := &Server{store: store, values: map[string]*mvccpb.KeyValue{}, revision: 1}
	items, err := store.List(context.Background(), "")
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		kv, err := unpack(item.Key, item.Value)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, item.Key)
		s.values[item.Key] = kv
		s.revision = max(s.revision, kv.ModRevision)
	}
	return s, nil
}

// Serve answers on lis until Close.
func (s *Server) Serve(lis net.Listener) error {
	s.mu.Lock()
	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(4 << 20))
	pb.RegisterKVServer(s.grpc, s)
	server := s.grpc
	s.mu.Unlock()
	return server.Serve(lis)
}

// Close stops serving and closes the store.
func (s *Server) Close() error {
	s.mu.Lock()
	server := s.grpc
	s.mu.Unlock()
	if server != nil {
		server.Stop()
	}
	return s.store.Close()
}

func (s *Server) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: s.revision} }

// Range implements pb.KVServer. Sorting other than by key, and old revisions, are
// refused.
func (s *Server) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rangeLocked(r)
}

func (s *Server) rangeLocked(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if r.Revision > 0 || r.SortOrder != pb.RangeRequest_NONE && r.SortTarget != pb.RangeRequest_KEY {
		return nil, status.Error(codes.Unimplemented, "no history and no sorting by other than the key")
	}
	from, to := s.span(r.Key, r.RangeEnd)
	resp := &pb.RangeResponse{Header: s.header(), Count: int64(to - from)}
	for _, key := range s.keys[from:to] {
		if r.Limit > 0 && int64(len(resp.Kvs)) == r.Limit {
			resp.More = true
			break
		}
		kv := s.values[key]
		if r.KeysOnly {
			kv = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version}
		}
		if !r.CountOnly {
			resp.Kvs = append(resp.Kvs, kv)
		}
	}
	return resp, nil
}

// span returns the places in keys of a key or, with an end, of a range. An end of
// one zero byte means everything from the key on.
func (s *Server) span(key, end []byte) (from, to int) {
	from, found := slices.BinarySearch(s.keys, string(key))
	switch {
	case len(end) == 0 && found:
		return from, from + 1
	case len(end) == 0:
		return from, from
	case len(end) == 1 && end[0] == 0:
		return from, len(s.keys)
	}
	to, _ = slices.BinarySearch(s.keys, string(end))
	return from, max(from, to)
}

// Put implements pb.KVServer.
func (s *Server) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	return s.putLocked(ctx, r)
}

func (s *Server) putLocked(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	if r.Lease != 0 {
		return nil, status.Error(codes.Unimplemented, "no leases")
	}
	key := string(r.Key)
	kv := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, CreateRevision: s.revision, ModRevision: s.revision, Version: 1}
	if old := s.values[key]; old != nil {
		kv.CreateRevision, kv.Version = old.CreateRevision, old.Version+1
	}
	b := pack(kv)
	kv.Value = b[head:]
	if err := s.store.Put(ctx, state.Item{Key: key, Value: b}); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if i, found := slices.BinarySearch(s.keys, key); !found {
		s.keys = slices.Insert(s.keys, i, key)
	}
	s.values[key] = kv
	return &pb.PutResponse{Header: s.header()}, nil
}

// DeleteRange implements pb.KVServer.
func (s *Server) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	return s.deleteLocked(ctx, r)
}

func (s *Server) deleteLocked(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	from, to := s.span(r.Key, r.RangeEnd)
	resp := &pb.DeleteRangeResponse{Header: s.header(), Deleted: int64(to - from)}
	for _, key := range slices.Clone(s.keys[from:to]) {
		if err := s.store.Delete(ctx, key); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		delete(s.values, key)
	}
	s.keys = slices.Delete(s.keys, from, to)
	return resp, nil
}
