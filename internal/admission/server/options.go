package server

import (
	"net"
	"time"

	"github.com/bursar/bursar/internal/admission/access"
)

// Options say how API servers and other replicas reach a server. The zero value is for an API server on the same
// machine.
type Options struct {
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
	// ManageSecret has the operator make the certificate in the Secret and renew it. Otherwise somebody
	// else does.
	ManageSecret bool
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
