package etcdserver_test

import (
	"net"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/etcdserver"
	"shakedown.dev/shakedown/standin/state"
	"shakedown.dev/shakedown/standin/state/statetest"
)

func start(t *testing.T, dir string) string {
	t.Helper()
	server, err := etcdserver.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + lis.Addr().String()
}

func TestTheStoreOverIt(t *testing.T) {
	store, err := state.OpenEtcd(config.Storage{Peers: []string{start(t, t.TempDir())}, Prefix: "/teleport/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	statetest.Run(t, store)
}

func TestWhatIsWrittenIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	server, err := etcdserver.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(lis) }()
	put := client(t, "http://"+lis.Addr().String())
	first, err := put.Put(t.Context(), "a", "1")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	again := client(t, start(t, dir))
	got, err := again.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "1" || got.Kvs[0].ModRevision != first.Header.Revision {
		t.Errorf("after the restart: got %v, want a=1 at revision %d", got.Kvs, first.Header.Revision)
	}
}

func TestATransactionComparesBeforeItWrites(t *testing.T) {
	c := client(t, start(t, t.TempDir()))
	for i, want := range []bool{true, false} {
		resp, err := c.Txn(t.Context()).If(clientv3.Compare(clientv3.CreateRevision("k"), "=", 0)).Then(clientv3.OpPut("k", "v")).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if resp.Succeeded != want {
			t.Errorf("create %d: succeeded %t, want %t", i, resp.Succeeded, want)
		}
	}
}

func client(t *testing.T, addr string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
