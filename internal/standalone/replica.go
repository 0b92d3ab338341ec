package standalone

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/internal/standalone/apiserver"
)

const (
	// webhookService is the Service in the webhook configurations. The object does not exist: each API server calls its
	// own process without a connection. This process is up to date and runs as long as the API server.
	webhookService     = "bursar-webhooks"
	webhookServicePort = 443
)

// replica is the additional state of a server on a shared etcd.
type replica struct {
	// listener accepts the reviews of other servers.
	listener net.Listener
	// peers is the address of the listener for other servers, as host:port. It is empty if this machine has no address
	// for others.
	peers string
}

// newReplica returns nil for an embedded etcd, as it has no other servers.
func newReplica(o Options) (*replica, error) {
	if len(o.Etcd.Servers) == 0 {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(o.Listen) // the control plane reports its errors
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for other servers on the host of --listen %s: %w", o.Listen, err)
	}
	r := &replica{listener: listener, peers: listener.Addr().String()}
	if address := listener.Addr().(*net.TCPAddr); address.IP.IsUnspecified() {
		r.peers = ""
		if ip, err := utilnet.ChooseHostInterface(); err == nil {
			r.peers = net.JoinHostPort(ip.String(), fmt.Sprint(address.Port))
		}
	}
	return r, nil
}

// webhookHost returns the host in the URLs of webhook calls.
func webhookHost(o Options) string {
	return fmt.Sprintf("%s.%s.svc:%d", webhookService, o.SystemNamespace, webhookServicePort)
}

// uncached returns the resources that the API server need not cache. A server without others does not watch its
// ledgers, as it is their only writer. Ledgers are large and change with every create. One of several watches the
// writes of the others. Nobody reads claims in the version for writes.
func (r *replica) uncached() []schema.GroupVersionResource {
	resources := []schema.GroupVersionResource{{Group: quotav1alpha1.GroupName, Version: quotav1alpha1.GrantedVersion, Resource: "resourceclaims"}}
	if r == nil {
		resources = append(resources, schema.GroupVersionResource{Group: quotav1alpha1.GroupName, Resource: "consumerledgers"})
	}
	return resources
}

// complete configures the operator as one of several.
func (r *replica) complete(o *operator.Options) {
	o.LeaderElection = &operator.LeaderElection{
		LeaseDuration: apiserver.LeaseDuration, RenewDeadline: apiserver.RenewDeadline, RetryPeriod: apiserver.RetryPeriod,
	}
	o.Webhooks = server.Options{
		Listener: r.listener, PeerAddress: r.peers, SecretName: naming.CertificateSecret, ManageSecret: true,
	}
}

func (r *replica) close() {
	if r != nil {
		_ = r.listener.Close() // it may be closed already
	}
}

// settings returns the settings common to servers on one etcd, as a user gives them.
func settings(o Options) string {
	var all []string
	for _, n := range o.ConsumerNamespaces {
		all = append(all, fmt.Sprintf("--consumer-namespace %s=%s", n.GroupKind(), n.Namespace))
	}
	slices.Sort(all)
	if o.RequestTimeout.Duration != config.DefaultRequestTimeout {
		// A server with a shorter timeout would expire the reservations of others too early.
		all = append(all, fmt.Sprintf("--request-timeout %s", o.RequestTimeout))
	}
	if !o.ResourceQuotas.ServesAllocations() { // the webhooks of the others would decide on them
		all = append(all, "--allocations=false")
	}
	if !o.ResourceQuotas.ServesIncreases() {
		all = append(all, "--increases=false")
	}
	return strings.Join(append([]string{"--system-namespace " + o.SystemNamespace}, all...), " ")
}
