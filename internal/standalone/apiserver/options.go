// Package apiserver runs a Kubernetes control plane inside this process: etcd, the generic Kubernetes API server
// (namespaces, RBAC, secrets, config maps, custom resources, webhooks; no pods), the garbage collector and the
// namespace controller. All state lives in one data directory. Package standalone, the binary bursar and tests import
// it.
package apiserver

import (
	"fmt"
	"io"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/bursar/bursar/internal/kube/inprocess"
)

// Options configure the control plane.
type Options struct {
	// DataDir holds all state. It is created if it does not exist.
	DataDir string
	// Listen is the host:port that the API server listens on. Port 0 takes a free one.
	Listen string
	// Etcd, if it names servers, is used instead of an embedded etcd.
	Etcd ExternalEtcd
	// Authentication configures the users of the API server besides its own.
	Authentication Authentication
	// Settings are the settings common to all servers on one external etcd, as a user gives them. It is not empty.
	Settings string
	// RequestTimeout is how long the API server gives a request. Default: a minute.
	RequestTimeout time.Duration
	// MaxObjectBytes is the size of the largest object that the embedded etcd stores. Default: etcd's.
	MaxObjectBytes int
	// Webhooks answers calls of webhooks of this process. All others go over the network. Default: all do.
	Webhooks *inprocess.Server
	// Audit receives the audit events of writes. Default: there are none.
	Audit *inprocess.Audit
	// Uncached are custom resources without a watch cache, in one version or, if that is empty, in all: lists and
	// watches of them go to etcd.
	Uncached []schema.GroupVersionResource
	// ReadyChecks are added to those behind the API server's /readyz.
	ReadyChecks []healthz.HealthChecker
	// Progress reports each step to the user.
	Progress Progress
}

// Progress writes plain lines to Out, or nowhere if Out is nil.
type Progress struct{ Out io.Writer }

// Printf writes a line.
func (p Progress) Printf(format string, args ...any) {
	if p.Out != nil {
		fmt.Fprintf(p.Out, "bursar: "+format+"\n", args...) //nolint:errcheck // there is nobody else to report to
	}
}

// ExternalEtcd configures the connection to an existing etcd cluster.
type ExternalEtcd struct {
	Servers                   []string
	CAFile, CertFile, KeyFile string
}

func (o *Options) complete() error {
	if o.DataDir == "" {
		return fmt.Errorf("no data directory is given")
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return fmt.Errorf("listen address %q is not of the form host:port", o.Listen)
	}
	if err := o.Authentication.validate(); err != nil {
		return err
	}
	return o.Etcd.validate()
}
