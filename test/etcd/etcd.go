// Package etcd runs an etcd for tests, as somebody else would run one for Bursar.
package etcd

import (
	"net/url"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Start starts an etcd on a free port for the time of a test, and returns its URL.
func Start(t testing.TB) string {
	t.Helper()
	anywhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config := embed.NewConfig()
	config.Dir = t.TempDir()
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	config.ListenClientUrls, config.AdvertiseClientUrls = anywhere, anywhere
	config.ListenPeerUrls, config.AdvertisePeerUrls = anywhere, anywhere
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.EnableGRPCGateway = false // it would look for the server at port 0
	server, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		t.Fatal(err)
	case <-t.Context().Done():
		t.Fatal("the test ended before etcd was ready")
	}
	return "http://" + server.Clients[0].Addr().String()
}

// RevokeLease ends the lease of the one key with prefix, as a long silence of its holder would.
func RevokeLease(t testing.TB, server, prefix string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // it was only used to ask
	held, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil || len(held.Kvs) != 1 {
		t.Fatalf("keys that begin with %s: %v, %v; want one", prefix, held, err)
	}
	if _, err := client.Revoke(t.Context(), clientv3.LeaseID(held.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
}
