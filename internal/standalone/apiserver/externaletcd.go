package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	certutil "k8s.io/client-go/util/cert"

	"github.com/bursar/bursar/internal/standalone/datadir"
)

// etcdTimeout is how long an etcd cluster may take to answer at start.
const etcdTimeout = 10 * time.Second

// keepAliveTime is how long a connection is quiet before etcd is asked whether it is still there, as by the API server.
const keepAliveTime = 30 * time.Second

// check makes sure that the etcd cluster answers.
func (e *ExternalEtcd) check(ctx context.Context) error {
	servers := strings.Join(e.Servers, ", ")
	client, err := e.connect()
	if err != nil {
		return err
	}
	defer closeQuietly(client)
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	if _, err := client.Get(ctx, "/", clientv3.WithCountOnly()); err != nil {
		return fmt.Errorf("etcd at %s does not answer within %s (%w); check --etcd-servers and its certificates", servers, etcdTimeout, err)
	}
	return nil
}

// connect returns a client of the etcd cluster. It does not wait for an answer.
func (e *ExternalEtcd) connect() (*clientv3.Client, error) {
	config, err := e.clientConfig()
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %s: %w", strings.Join(e.Servers, ", "), err)
	}
	return client, nil
}

func (e *ExternalEtcd) clientConfig() (clientv3.Config, error) {
	config := clientv3.Config{
		Endpoints: e.Servers, DialTimeout: etcdTimeout, DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: etcdTimeout, Logger: zap.NewNop(),
	}
	if e.CAFile == "" && e.CertFile == "" {
		return config, nil
	}
	var err error
	info := transport.TLSInfo{TrustedCAFile: e.CAFile, CertFile: e.CertFile, KeyFile: e.KeyFile}
	if config.TLS, err = info.ClientConfig(); err != nil {
		return config, fmt.Errorf("read the certificates for etcd at %s: %w", strings.Join(e.Servers, ", "), err)
	}
	return config, nil
}

// validate returns invalid settings before anything starts. It names the flags of the values.
func (e *ExternalEtcd) validate() error {
	for _, server := range e.Servers {
		location, err := url.Parse(server)
		if err != nil || location.Host == "" || location.Scheme != "http" && location.Scheme != "https" {
			return fmt.Errorf("--etcd-servers: %q is not a URL such as https://127.0.0.1:2379", server)
		}
	}
	files := []struct{ flag, path string }{
		{"--etcd-cafile", e.CAFile}, {"--etcd-certfile", e.CertFile}, {"--etcd-keyfile", e.KeyFile},
	}
	for _, file := range files {
		if file.path == "" {
			continue
		}
		if len(e.Servers) == 0 {
			return fmt.Errorf("%s needs --etcd-servers", file.flag)
		}
		if _, err := os.ReadFile(file.path); err != nil {
			return fmt.Errorf("%s: %s cannot be read: %w", file.flag, file.path, datadir.Reason(err))
		}
	}
	return e.validatePair()
}

// validatePair makes sure that certificates exist, and each with its key.
func (e *ExternalEtcd) validatePair() error {
	switch {
	case e.CertFile != "" && e.KeyFile == "":
		return errors.New("--etcd-certfile needs --etcd-keyfile")
	case e.KeyFile != "" && e.CertFile == "":
		return errors.New("--etcd-keyfile needs --etcd-certfile")
	case e.CertFile != "":
		if _, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile); err != nil {
			return fmt.Errorf("--etcd-certfile %s and --etcd-keyfile %s do not make a pair: %w", e.CertFile, e.KeyFile, err)
		}
	}
	if e.CAFile != "" {
		if _, err := certutil.CertsFromFile(e.CAFile); err != nil {
			return fmt.Errorf("--etcd-cafile: %s holds no certificate", e.CAFile)
		}
	}
	return nil
}

// closeQuietly closes a reader. Its error does not matter.
func closeQuietly(c io.Closer) { _ = c.Close() }
