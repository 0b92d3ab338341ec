package controlplane

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdPatience is how long an etcd cluster may take to answer at start.
const etcdPatience = 10 * time.Second

// check makes sure that the etcd cluster answers.
func (e *ExternalEtcd) check(ctx context.Context) error {
	servers := strings.Join(e.Servers, ", ")
	config := clientv3.Config{Endpoints: e.Servers, DialTimeout: etcdPatience, Logger: zap.NewNop()}
	if e.CAFile != "" || e.CertFile != "" {
		info := transport.TLSInfo{TrustedCAFile: e.CAFile, CertFile: e.CertFile, KeyFile: e.KeyFile}
		tls, err := info.ClientConfig()
		if err != nil {
			return fmt.Errorf("read the certificates for etcd at %s: %w", servers, err)
		}
		config.TLS = tls
	}
	client, err := clientv3.New(config)
	if err != nil {
		return fmt.Errorf("connect to etcd at %s: %w", servers, err)
	}
	defer closeQuietly(client)
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	if _, err := client.Get(ctx, "/", clientv3.WithCountOnly()); err != nil {
		return fmt.Errorf("etcd at %s does not answer within %s (%w); check --etcd-servers and its certificates", servers, etcdPatience, err)
	}
	return nil
}

// closeQuietly closes what was only read from.
func closeQuietly(c io.Closer) { _ = c.Close() }
