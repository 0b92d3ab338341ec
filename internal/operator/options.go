// Package operator puts the controllers and webhooks together and runs them against an API
// server. It is the composition root: nothing imports it but commands.
package operator

import (
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
)

// Options say how the operator runs.
type Options struct {
	config.Quota
	// Config reaches the API server as Bursar's own user.
	Config *rest.Config
	// Username is the name of that user, as the API server sees it. Default: what the API server says.
	Username string
	// InstallCRDs makes the operator create and update its own CRDs.
	InstallCRDs bool
	// Webhooks say how the API server reaches the webhooks.
	Webhooks server.Options
	// Others are all API servers that share what is stored, each with an operator of its own that serves
	// the webhooks for it. Default: the one that Config reaches, or nothing is known of others.
	Others webhookconfig.Others
	// LeaderElection, if set, has several replicas agree on which of them runs the controllers.
	LeaderElection *LeaderElection
	// Metrics, if set, takes the operator's metrics while it runs.
	Metrics prometheus.Registerer
	// Log receives what goes wrong. Default: nothing is logged.
	Log logr.Logger
}

// LeaderElection says how replicas agree on a leader, see [k8s.io/client-go/tools/leaderelection].
type LeaderElection struct {
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}
