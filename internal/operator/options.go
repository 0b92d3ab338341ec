// Package operator puts the controllers and webhooks together and runs them against an API
// server. It is the composition root: nothing imports it but commands.
package operator

import (
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
)

// RequestTimeoutMax bounds [Options.RequestTimeout].
const RequestTimeoutMax = 2 * time.Minute

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
	// RequestTimeout is how long the API server gives a request, its --request-timeout: at most [RequestTimeoutMax]. Quota for
	// a create that fails after admission is held that long, and a little longer. Default: a minute, as the API server's.
	RequestTimeout time.Duration
	// Webhooks say how the API server reaches the webhooks.
	Webhooks server.Options
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

// LeaderElection says how replicas agree on a leader, see [k8s.io/client-go/tools/leaderelection].
type LeaderElection struct {
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

func (o *Options) complete() {
	if o.SystemNamespace == "" {
		o.SystemNamespace = DefaultSystemNamespace
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = time.Minute
	}
}
