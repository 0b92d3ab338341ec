package apiserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	generic "k8s.io/kubernetes/pkg/controlplane/apiserver/samples/generic/server"

	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/standalone/datadir"
)

// watchEndTimeout is how long a stopping server waits for watches to end.
const watchEndTimeout = 2 * time.Second

// newAPIServer assembles the API server. It serves on listener once it runs.
func (c *ControlPlane) newAPIServer(ctx context.Context, operator *operatorUser, listener net.Listener, etcd ExternalEtcd) (*aggregator.APIAggregator, error) {
	o, err := apiServerOptions(c.dir, c.pki, operator, listener, etcd, &c.options.Authentication)
	if err != nil {
		return nil, err
	}
	if timeout := c.options.RequestTimeout; timeout != 0 {
		o.GenericServerRunOptions.RequestTimeout = timeout
	}
	completed, err := o.Complete(ctx, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("complete the API server's options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("the API server's options: %w", utilerrors.NewAggregate(errs))
	}
	// A single API server serves a new kind at once. One of several waits, to give the others time to learn of the
	// kind.
	apiServers := 1
	if c.hold != nil {
		apiServers = 2
	}
	config, err := newServerConfig(ctx, completed, c.options, apiServers, c.serverID())
	if err != nil {
		return nil, fmt.Errorf("configure the API server: %w", err)
	}
	completedConfig, err := config.Complete()
	if err != nil {
		return nil, fmt.Errorf("configure the API server: %w", err)
	}
	server, err := generic.CreateServerChain(completedConfig)
	if err != nil {
		return nil, fmt.Errorf("make the API server: %w", err)
	}
	if err := server.GenericAPIServer.AddReadyzChecks(c.options.ReadyChecks...); err != nil {
		return nil, fmt.Errorf("add readiness checks: %w", err)
	}
	return server, nil
}

// serverID identifies the API server among those on the same etcd. It is constant for a data directory, so Leases by
// its name do not accumulate.
func (c *ControlPlane) serverID() string {
	host, _ := os.Hostname() // without it, the path suffices
	return "apiserver-" + naming.Suffix(host, c.dir.Path())
}

func apiServerOptions(d *datadir.Directory, p *pki, operator *operatorUser, listener net.Listener, etcd ExternalEtcd, a *Authentication) (*options.Options, error) {
	address := listener.Addr().(*net.TCPAddr)
	certFile, keyFile, err := p.signServer("apiserver", servedHosts(address.IP)...)
	if err != nil {
		return nil, err
	}
	configuration, err := a.configuration()
	if err != nil {
		return nil, err
	}
	authentication := d.Join("pki", "authentication.yaml")
	if err := datadir.WriteFile(authentication, configuration); err != nil {
		return nil, fmt.Errorf("write %s: %w", authentication, err)
	}

	o := generic.NewOptions()
	o.SecureServing.Listener, o.SecureServing.BindPort = listener, address.Port
	o.SecureServing.BindAddress = address.IP
	o.SecureServing.ServerCert.CertKey.CertFile, o.SecureServing.ServerCert.CertKey.KeyFile = certFile, keyFile
	o.SecureServing.ServerCert.CertDirectory = d.Join("pki")
	o.GenericServerRunOptions.AdvertiseAddress = advertised(address.IP)
	o.Etcd.StorageConfig.Transport.ServerList = etcd.Servers
	o.Etcd.StorageConfig.Transport.TrustedCAFile = etcd.CAFile
	o.Etcd.StorageConfig.Transport.CertFile = etcd.CertFile
	o.Etcd.StorageConfig.Transport.KeyFile = etcd.KeyFile
	o.Authentication.ClientCert.ClientCA = p.caFile()
	o.Authentication.AuthenticationConfigFile = authentication
	o.Authentication.TokenFile.TokenFile = operator.tokenFile
	o.Authentication.ServiceAccounts.Issuers = []string{"https://bursar.local"}
	o.Authentication.ServiceAccounts.KeyFiles = []string{p.serviceAccountKeyFile()}
	o.ServiceAccountSigningKeyFile = p.serviceAccountKeyFile()
	o.Authorization.Modes = []string{"RBAC"}
	registerUntracked(o.Admission)
	// It queues bursts; all clients of one machine share it.
	o.GenericServerRunOptions.MaxRequestsInFlight = 800
	o.GenericServerRunOptions.MaxMutatingRequestsInFlight = 400
	// Watch clients, including the operator, may stay until the server ends.
	o.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = watchEndTimeout
	return o, nil
}

// servedHosts returns the names in the server's certificate.
func servedHosts(ip net.IP) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1", "kubernetes.default.svc"}
	if !ip.IsLoopback() && !ip.IsUnspecified() {
		hosts = append(hosts, ip.String())
	}
	if ip.IsUnspecified() {
		addresses, _ := net.InterfaceAddrs() // without them, only loopback can be served
		for _, address := range addresses {
			if network, ok := address.(*net.IPNet); ok {
				hosts = append(hosts, network.IP.String())
			}
		}
	}
	return hosts
}

// advertised returns an address of the server other than "any".
func advertised(ip net.IP) net.IP {
	if ip.IsUnspecified() {
		return net.IPv4(127, 0, 0, 1)
	}
	return ip
}
