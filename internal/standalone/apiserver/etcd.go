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
	// socketPathMax is the longest path that a Unix socket can have on every platform.
	socketPathMax = 100
	// etcdQuotaBytes is the size that etcd's database may grow to.
	etcdQuotaBytes = 8 << 30
	// snapshotCount is after how many writes etcd takes a snapshot, and snapshotCatchUp how many it
	// keeps in memory all the same, for followers. There are none here, and ledgers are large.
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

// startEtcd starts etcd on dir. Clients reach it through a Unix socket in a directory that is
// closed to others; its peer port, which has no use, asks for a certificate of ours.
//
// It takes requests of up to requestBytesMax bytes, or of as many as etcd takes by default if that is 0.
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
	// What a process that was killed left behind.
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
	// Zero, the value in an embedded etcd's configuration, is a warning for every request.
	config.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	config.QuotaBackendBytes = etcdQuotaBytes
	config.MaxRequestBytes = cmp.Or(uint(requestBytesMax), config.MaxRequestBytes)
	config.SnapshotCount, config.SnapshotCatchUpEntries = snapshotCount, snapshotCatchUp
	client, peer := url.URL{Scheme: "unix", Path: socket}, url.URL{Scheme: "https", Host: "127.0.0.1:0"}
	config.ListenClientUrls = []url.URL{client}
	// Nobody asks the member where it can be reached, and a socket is no valid answer.
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
