package etcdserver

import (
	"bytes"
	"cmp"
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Txn implements pb.KVServer: comparisons of one key each, then one of two lists
// of operations.
func (s *Server) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &pb.TxnResponse{Succeeded: true}
	for _, c := range r.Compare {
		ok, err := s.holds(c)
		if err != nil {
			return nil, err
		}
		resp.Succeeded = resp.Succeeded && ok
	}
	ops := r.Success
	if !resp.Succeeded {
		ops = r.Failure
	}
	s.revision++
	for _, op := range ops {
		done, err := s.apply(ctx, op)
		if err != nil {
			return nil, err
		}
		resp.Responses = append(resp.Responses, done)
	}
	resp.Header = s.header()
	return resp, nil
}

func (s *Server) holds(c *pb.Compare) (bool, error) {
	if len(c.RangeEnd) > 0 {
		return false, status.Error(codes.Unimplemented, "no comparisons of ranges")
	}
	kv := s.values[string(c.Key)]
	if kv == nil {
		kv = &mvccpb.KeyValue{}
	}
	var order int
	switch c.Target {
	case pb.Compare_VERSION:
		order = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_CREATE:
		order = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		order = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VALUE:
		order = bytes.Compare(kv.Value, c.GetValue())
	default:
		return false, status.Error(codes.Unimplemented, "no comparisons of leases")
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return order == 0, nil
	case pb.Compare_NOT_EQUAL:
		return order != 0, nil
	case pb.Compare_GREATER:
		return order > 0, nil
	}
	return order < 0, nil
}

func (s *Server) apply(ctx context.Context, op *pb.RequestOp) (*pb.ResponseOp, error) {
	switch {
	case op.GetRequestPut() != nil:
		resp, err := s.putLocked(ctx, op.GetRequestPut())
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: resp}}, err
	case op.GetRequestDeleteRange() != nil:
		resp, err := s.deleteLocked(ctx, op.GetRequestDeleteRange())
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: resp}}, err
	case op.GetRequestRange() != nil:
		resp, err := s.rangeLocked(op.GetRequestRange())
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: resp}}, err
	}
	return nil, status.Error(codes.Unimplemented, "no nested transactions")
}
