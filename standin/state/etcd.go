package state

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"shakedown.dev/shakedown/standin/config"
)

// Etcd is a Store in etcd. Expiry is kept in the item and enforced on reading;
// a sweep once a minute removes what is over, so no leases are needed.
type Etcd struct {
	client *clientv3.Client
	prefix string
	stop   chan struct{}
}

const etcdTimeout = 10 * time.Second

// OpenEtcd connects to the peers of s. It does not wait for them to answer.
func OpenEtcd(s config.Storage) (*Etcd, error) {
	tlsConfig, err := etcdTLS(s)
	if err != nil {
		return nil, fmt.Errorf("open etcd backend: %w", err)
	}
	password := ""
	if s.Password != "" {
		b, err := os.ReadFile(s.Password)
		if err != nil {
			return nil, fmt.Errorf("open etcd backend: %w", err)
		}
		password = strings.TrimSpace(string(b))
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: s.Peers, DialTimeout: etcdTimeout, TLS: tlsConfig,
		Username: s.Username, Password: password, Logger: zap.NewNop(),
		// The default waits up to two minutes between tries; auth and etcd often start together.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: etcdTimeout,
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("open etcd backend: %w", err)
	}
	e := &Etcd{client: client, prefix: "/" + strings.Trim(s.Prefix, "/") + "/", stop: make(chan struct{})}
	go e.sweep()
	return e, nil
}

func etcdTLS(s config.Storage) (*tls.Config, error) {
	if s.TLSCAFile == "" && s.TLSCertFile == "" {
		return nil, nil
	}
	cfg := &tls.Config{InsecureSkipVerify: s.Insecure}
	if s.TLSCAFile != "" {
		pem, err := os.ReadFile(s.TLSCAFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", s.TLSCAFile)
		}
	}
	if s.TLSCertFile != "" {
		pair, err := tls.LoadX509KeyPair(s.TLSCertFile, s.TLSKeyFile)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

func (e *Etcd) key(k string) string { return path.Join(e.prefix, k) }

func (e *Etcd) item(value []byte) (Item, error) {
	var item Item
	if err := json.Unmarshal(value, &item); err != nil {
		return item, fmt.Errorf("decode backend item: %w", err)
	}
	return item, nil
}

// Get implements Store.
func (e *Etcd) Get(ctx context.Context, key string) (Item, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	resp, err := e.client.Get(ctx, e.key(key))
	if err != nil {
		return Item{}, fmt.Errorf("read %s from etcd: %w", key, err)
	}
	if len(resp.Kvs) == 0 {
		return Item{}, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	item, err := e.item(resp.Kvs[0].Value)
	if err == nil && item.Expired(time.Now()) {
		err = fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return item, err
}

// List implements Store.
func (e *Etcd) List(ctx context.Context, prefix string) ([]Item, error) {
	full := e.key(prefix)
	if strings.HasSuffix(prefix, "/") {
		full += "/"
	}
	return e.between(ctx, full, clientv3.GetPrefixRangeEnd(full))
}

// Range implements Store.
func (e *Etcd) Range(ctx context.Context, from, to string) ([]Item, error) {
	return e.between(ctx, e.key(from), e.key(to))
}

// between reads pages, so that no answer grows over etcd's limit.
func (e *Etcd) between(ctx context.Context, from, end string) ([]Item, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	var out []Item
	now := time.Now()
	for {
		resp, err := e.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(500))
		if err != nil {
			return nil, fmt.Errorf("list %s in etcd: %w", from, err)
		}
		for _, kv := range resp.Kvs {
			item, err := e.item(kv.Value)
			if err != nil {
				return nil, err
			}
			if !item.Expired(now) {
				out = append(out, item)
			}
		}
		if !resp.More {
			return out, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// Put implements Store.
func (e *Etcd) Put(ctx context.Context, item Item) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	b, err := json.Marshal(item)
	if err != nil {
		return err
	}
	if _, err := e.client.Put(ctx, e.key(item.Key), string(b)); err != nil {
		return fmt.Errorf("write %s to etcd: %w", item.Key, err)
	}
	return nil
}

// Create implements Store. An item whose time is over may still be there: exactly
// that one is replaced.
func (e *Etcd) Create(ctx context.Context, item Item) error {
	b, err := json.Marshal(item)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	key := e.key(item.Key)
	found, err := e.client.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("create %s in etcd: %w", item.Key, err)
	}
	revision := int64(0)
	if len(found.Kvs) > 0 {
		old, err := e.item(found.Kvs[0].Value)
		if err != nil {
			return err
		}
		if !old.Expired(time.Now()) {
			return fmt.Errorf("%s: %w", item.Key, ErrExists)
		}
		revision = found.Kvs[0].ModRevision
	}
	resp, err := e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpPut(key, string(b))).Commit()
	if err != nil {
		return fmt.Errorf("create %s in etcd: %w", item.Key, err)
	}
	if !resp.Succeeded {
		return fmt.Errorf("%s: %w", item.Key, ErrExists)
	}
	return nil
}

// Delete implements Store.
func (e *Etcd) Delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	resp, err := e.client.Delete(ctx, e.key(key))
	if err != nil {
		return fmt.Errorf("delete %s in etcd: %w", key, err)
	}
	if resp.Deleted == 0 {
		return fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return nil
}

// sweep removes items whose time is over from the places where items expire.
func (e *Etcd) sweep() {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
			e.sweepOnce()
		}
	}
}

func (e *Etcd) sweepOnce() {
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	resp, err := e.client.Get(ctx, e.prefix, clientv3.WithPrefix(), clientv3.WithLimit(5000), clientv3.WithKeysOnly())
	if err != nil {
		return
	}
	for _, kv := range resp.Kvs {
		if !strings.Contains(string(kv.Key), "/servers/") && !strings.Contains(string(kv.Key), "/trackers/") && !strings.Contains(string(kv.Key), "/tokens/") {
			continue
		}
		one, err := e.client.Get(ctx, string(kv.Key))
		if err != nil || len(one.Kvs) == 0 {
			continue
		}
		if item, err := e.item(one.Kvs[0].Value); err == nil && item.Expired(time.Now()) {
			key := string(kv.Key)
			_, _ = e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", one.Kvs[0].ModRevision)).
				Then(clientv3.OpDelete(key)).Commit()
		}
	}
}

// Close implements Store.
func (e *Etcd) Close() error {
	close(e.stop)
	return e.client.Close()
}
