// Package operator puts the controllers and webhooks together and runs them against an API
// server. It is the composition root: nothing imports it but commands.
package operator

import (
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/admission/access"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
)

// DefaultSystemNamespace is where Bursar keeps what belongs to no other namespace.
const DefaultSystemNamespace = "bursar-system"

// Options say how the operator runs.
type Options struct {
	// Config reaches the API server as Bursar's own user.
	Config *rest.Config
	// Username is the name of that user, as the API server sees it. Default: what the API server says.
	Username string
	// InstallCRDs makes the operator create and update its own CRDs.
	InstallCRDs bool
	// SystemNamespace holds buckets and claims that have no namespace of their own. It is
	// created if it is missing. Default: DefaultSystemNamespace.
	SystemNamespace string
	// ConsumerNamespaces gives the namespace of consumers of a kind, with {{name}} standing for
	// the consumer's name, for those that name none themselves. Default: the system namespace.
	ConsumerNamespaces map[schema.GroupKind]string
	// ExceededAdvice is what people are told to do where quota is exceeded and the registration says nothing, with
	// {{name}} standing for the consumer's name. Default: to delete something, or to ask an administrator.
	ExceededAdvice string
	// MaxObjectBytes is the size of the largest object that the API server's etcd stores. Default: etcd's own.
	MaxObjectBytes int
	// Webhooks say how the API server reaches the webhooks.
	Webhooks Webhooks
	// Others are all API servers that share what is stored, each with an operator of its own that serves
	// the webhooks for it. Default: the one that Config reaches, or nothing is known of others.
	Others webhookconfig.Others
	// LeaderElection, if set, has several replicas agree on which of them runs the controllers.
	LeaderElection *LeaderElection
	// AuditInterval is the time between two audits of all ledgers. Default: 5 minutes.
	AuditInterval time.Duration
	// DepartedInterval is the time between two looks for consumers that no longer exist. Default: a minute.
	DepartedInterval time.Duration
	// ControlPlaneInterval is the time between two looks at the grants in another control plane.
	// Default: 30 s.
	ControlPlaneInterval time.Duration
	// Metrics, if set, takes the operator's metrics while it runs.
	Metrics prometheus.Registerer
	// ConsumersMax is how many pairs of a consumer and a resource type have metrics of their own, those first that are
	// used most. Default: 10,000.
	ConsumersMax *int
	// AlertThresholdPercent is from which part of its limit on a consumer is near it, unless the registration or a grant
	// says otherwise. Default: [quotav1alpha1.AlertThresholdDefault].
	AlertThresholdPercent int
	// Log receives what goes wrong. Default: nothing is logged.
	Log logr.Logger
}

// Webhooks say how the API server reaches the webhooks. The zero value is for an API server on the same
// machine.
type Webhooks struct {
	// Listener takes the calls. Default: a free port on the loopback interface.
	Listener net.Listener
	// Service is the Service in the system namespace by which the API server calls. Default: URL.
	Service *Service
	// URL is where the API server calls, if there is no service: https://host:port. Default: the
	// listener's address.
	URL string
	// PeerAddress is where other replicas reach the listener, as host:port. Default: they do not, and each
	// decides all that it is asked.
	PeerAddress string
	// SecretName is the Secret in the system namespace that holds the certificate, which replicas share. The one of
	// that name with "-callers" behind it holds the key by which they know who may call.
	// Default: a certificate that is made anew at each start, for the listener's address.
	SecretName string
	// KeepSecret has the operator make the certificate in the Secret and renew it. Otherwise somebody
	// else does.
	KeepSecret bool
	// ClientCertificates are what the API server shows, so that the published paths need no segment that proves who
	// calls. Default: none.
	ClientCertificates access.ClientCertificates
	// ShutdownDelay is for how long calls are still answered once the operator is to stop.
	ShutdownDelay time.Duration
}

// Service names a Service.
type Service struct {
	Name string
	Port int32
}

// LeaderElection says how replicas agree on a leader, see [k8s.io/client-go/tools/leaderelection].
type LeaderElection struct {
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

func (o *Options) complete() {
	if o.SystemNamespace == "" {
		o.SystemNamespace = DefaultSystemNamespace
	}
}
