// Package operator assembles the controllers and webhooks and runs them against an API server. It is the composition
// root: only commands and package standalone import it.
package operator

import (
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/admission/server"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/kube/inprocess"
	"github.com/bursar/bursar/internal/ledger/ledgerapi"
)

// Direct stores claims and ledgers past the API server.
type Direct interface {
	claims.Direct
	ledgerapi.Direct
}

// Options configure the operator.
type Options struct {
	config.Quota
	// Config reaches the API server as Bursar's own user.
	Config *rest.Config
	// Username is the name of that user, as the API server sees it. Default: the API server's own answer.
	Username string
	// InstallCRDs makes the operator create and update its own CRDs.
	InstallCRDs bool
	// Webhooks configure the webhook server and its address for the API server.
	Webhooks server.Options
	// Others are all API servers with the same storage, each with its own operator that serves the webhooks for it.
	// Default: Config's API server is the only one, or others are unknown.
	Others webhookconfig.Others
	// Audit, if set, passes the audit events of an API server in this process.
	Audit *inprocess.Audit
	// LeaderElection, if set, makes several replicas agree on the leader.
	LeaderElection *LeaderElection
	// Direct, if set, stores claims and ledgers past the API server.
	Direct Direct
	// History has the journals that users read. Default: the entries in the configured sink, if Bursar can read it.
	History journal.Source
	// Replica is the name of this process among the writers of the journal. Default: the host's name.
	Replica string
	// Metrics, if set, receives the operator's metrics while it runs.
	Metrics prometheus.Registerer
	// Log receives errors. Default: nothing is logged.
	Log logr.Logger
}

// LeaderElection configures the election, see [k8s.io/client-go/tools/leaderelection].
type LeaderElection struct {
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}
