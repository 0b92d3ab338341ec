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
)

// DefaultSystemNamespace is where Bursar keeps what belongs to no other namespace.
const DefaultSystemNamespace = "bursar-system"

// Options say how the operator runs.
type Options struct {
	// Config reaches the API server as Bursar's own user.
	Config *rest.Config
	// Username is the name of that user, as the API server sees it.
	Username string
	// InstallCRDs makes the operator create and update its own CRDs.
	InstallCRDs bool
	// SystemNamespace holds buckets and claims that have no namespace of their own. It is
	// created if it is missing. Default: DefaultSystemNamespace.
	SystemNamespace string
	// ConsumerNamespaces gives the namespace of consumers of a kind, with {{name}} standing for
	// the consumer's name, for those that name none themselves. Default: the system namespace.
	ConsumerNamespaces map[schema.GroupKind]string
	// WebhookListener is where the API server reaches the webhooks. Default: a free port on
	// the loopback interface.
	WebhookListener net.Listener
	// AuditInterval is the time between two audits of all ledgers. Default: 5 minutes.
	AuditInterval time.Duration
	// ControlPlaneInterval is the time between two looks at the grants in another control plane.
	// Default: 30 s.
	ControlPlaneInterval time.Duration
	// Metrics, if set, takes the operator's metrics while it runs.
	Metrics prometheus.Registerer
	// Log receives what goes wrong. Default: nothing is logged.
	Log logr.Logger
}

func (o *Options) complete() {
	if o.SystemNamespace == "" {
		o.SystemNamespace = DefaultSystemNamespace
	}
}
