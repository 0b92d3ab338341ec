package standalone

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/internal/standalone/apiserver"
)

const (
	// webhookService is the Service by which the API servers on one etcd, who share the webhook
	// configurations, call the webhooks. There is no such object: each leads it to its own process, which
	// always knows how current it is, and is there whenever the API server is.
	webhookService     = "bursar-webhooks"
	webhookServicePort = 443
)

// replica is what a server needs beside others on the same etcd.
type replica struct {
	// listener takes webhook calls of the API server of this process, and of other servers.
	listener net.Listener
	// local is where this process reaches the listener, and peers where other servers do, as host:port.
	// The latter is empty if this machine has no address that others could use.
	local, peers string
}

// newReplica returns nil if the etcd is embedded, and so no other server's.
func newReplica(o Options) (*replica, error) {
	if len(o.Etcd.Servers) == 0 {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(o.Listen) // the control plane says what is wrong with it
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for webhook calls where --listen %s says: %w", o.Listen, err)
	}
	r := &replica{listener: listener, peers: listener.Addr().String()}
	if r.local, err = apiserver.LocalAddress(listener); err != nil {
		r.close()
		return nil, err
	}
	if address := listener.Addr().(*net.TCPAddr); address.IP.IsUnspecified() {
		r.peers = ""
		if ip, err := utilnet.ChooseHostInterface(); err == nil {
			r.peers = net.JoinHostPort(ip.String(), fmt.Sprint(address.Port))
		}
	}
	return r, nil
}

// services leads the Service of the webhooks to this process.
func (r *replica) services(o Options) map[types.NamespacedName]string {
	if r == nil {
		return nil
	}
	return map[types.NamespacedName]string{{Namespace: o.SystemNamespace, Name: webhookService}: r.local}
}

// complete makes the operator one of several.
func (r *replica) complete(o *operator.Options) {
	o.LeaderElection = &operator.LeaderElection{
		LeaseDuration: apiserver.LeaseDuration, RenewDeadline: apiserver.RenewDeadline, RetryPeriod: apiserver.RetryPeriod,
	}
	o.Webhooks = server.Options{
		Listener: r.listener, Service: &server.Service{Name: webhookService, Port: webhookServicePort}, PeerAddress: r.peers,
		SecretName: naming.CertificateSecret, ManageSecret: true,
	}
}

func (r *replica) close() {
	if r != nil {
		_ = r.listener.Close() // it may be closed already
	}
}

// settings are those that would have servers on one etcd fight, as a user gives them.
func settings(o Options) string {
	var all []string
	for _, n := range o.ConsumerNamespaces {
		all = append(all, fmt.Sprintf("--consumer-namespace %s=%s", n.GroupKind(), n.Namespace))
	}
	slices.Sort(all)
	if o.RequestTimeout.Duration != config.DefaultRequestTimeout {
		// One that gives up reservations earlier would give up those of others.
		all = append(all, fmt.Sprintf("--request-timeout %s", o.RequestTimeout))
	}
	return strings.Join(append([]string{"--system-namespace " + o.SystemNamespace}, all...), " ")
}
