package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

const (
	// socketPathMax is the longest path of a Unix socket on every platform.
	socketPathMax = 100
	// etcdQuotaBytes is the largest size of etcd's database.
	etcdQuotaBytes = 8 << 30
	// snapshotCount is the number of writes between two etcd snapshots. snapshotCatchUp is how many entries etcd keeps
	// in memory for followers. There are none here, and ledgers are large.
	snapshotCount   = 2000
	snapshotCatchUp = 100
	// etcdMember is the folder of etcd's own files.
	etcdMember = "member-data"
)

// etcdServer is an etcd of one member, reachable by this user only.
type etcdServer struct {
	server    *embed.Etcd
	log       *etcdLog
	endpoint  string
	socketDir string
}

// startEtcd starts etcd on dir. Clients connect through a Unix socket in a private directory. Its unused peer port
// requires a certificate of ours.
//
// It accepts requests of up to requestBytesMax bytes; 0 means etcd's default.
func startEtcd(ctx context.Context, dir, logFile string, p *pki, requestBytesMax int) (*etcdServer, error) {
	e := &etcdServer{socketDir: filepath.Join(dir, "socket")}
	if len(e.socketDir) > socketPathMax-len("/etcd.sock") {
		temporary, err := os.MkdirTemp("", "bursar-etcd-")
		if err != nil {
			return nil, fmt.Errorf("make a directory for etcd's socket: %w", err)
		}
		e.socketDir = temporary
	}
	if err := os.MkdirAll(e.socketDir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for etcd's socket: %w", err)
	}
	socket := filepath.Join(e.socketDir, "etcd.sock")
	// A killed process leaves its socket behind.
	if err := os.RemoveAll(socket); err != nil {
		return nil, fmt.Errorf("remove the socket of an earlier etcd: %w", err)
	}
	certFile, keyFile, err := p.signServer("etcd-peer", "127.0.0.1")
	if err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, etcdMember)
	e.log = newEtcdLog(logFile)
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(e.log.Logger)
	// A threshold of zero, the default of an embedded etcd, logs a warning for every request.
	config.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	config.QuotaBackendBytes = etcdQuotaBytes
	config.MaxRequestBytes = cmp.Or(uint(requestBytesMax), config.MaxRequestBytes)
	config.SnapshotCount, config.SnapshotCatchUpEntries = snapshotCount, snapshotCatchUp
	client, peer := url.URL{Scheme: "unix", Path: socket}, url.URL{Scheme: "https", Host: "127.0.0.1:0"}
	config.ListenClientUrls = []url.URL{client}
	// No client uses the member's advertised address, and etcd rejects a socket there.
	config.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.PeerTLSInfo = transport.TLSInfo{CertFile: certFile, KeyFile: keyFile, TrustedCAFile: p.caFile(), ClientCertAuth: true}
	if e.server, err = embed.StartEtcd(config); err != nil {
		e.log.close()
		return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	select {
	case <-e.server.Server.ReadyNotify():
	case err := <-e.server.Err():
		e.stop()
		return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
	case <-ctx.Done():
		e.stop()
		return nil, ctx.Err()
	}
	e.endpoint = client.String()
	return e, nil
}

func (e *etcdServer) stop() {
	e.server.Close()
	e.log.close()
	_ = os.RemoveAll(e.socketDir)
}
