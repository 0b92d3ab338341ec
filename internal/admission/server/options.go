package server

import (
	"net"
	"time"

	"github.com/bursar/bursar/internal/admission/access"
	"github.com/bursar/bursar/internal/kube/inprocess"
)

// Options are the addresses and credentials of a server. The zero value is for an API server on the same machine.
type Options struct {
	// Listener accepts the calls. Default: a free port on the loopback interface or, with InProcess, none.
	Listener net.Listener
	// Service is the Service in the system namespace that the API server calls. Default: URL.
	Service *Service
	// URL is the address that the API server calls if there is no service: https://host:port. Default: the listener's
	// address.
	URL string
	// PeerAddress is the address of the listener for other replicas, as host:port. One of several replicas needs it.
	PeerAddress string
	// SecretName is the Secret in the system namespace with the certificate of all replicas. The Secret with the suffix
	// "-callers" has the key to authenticate callers. Default: a new certificate at each start, for the listener's
	// address.
	SecretName string
	// ManageSecret makes the operator create and renew the certificate in the Secret. Otherwise another component does.
	ManageSecret bool
	// ClientCertificates are the client certificates of the API server. With them the published paths need no secret
	// segment. Default: none.
	ClientCertificates access.ClientCertificates
	// InProcess passes the calls of an API server in this process without a connection. Then the Listener, if there is
	// one, admits only other replicas, by their certificates. Default: the API server connects to the Listener.
	InProcess *inprocess.Server
	// ShutdownDelay is how long the server still answers calls after the operator begins to stop.
	ShutdownDelay time.Duration
}

// Service names a Service.
type Service struct {
	Name string
	Port int32
}
