package apiserver

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/kube/inprocess"
)

// newInProcessCalls has the admission plugins call the webhooks of this process without a connection. It leaves them
// their resolver of Services.
func newInProcessCalls(server *inprocess.Server) admission.PluginInitializer {
	wrap := func(config *rest.Config, err error) (*rest.Config, error) {
		if err != nil {
			return nil, err
		}
		config = rest.CopyConfig(config) // it may be the API server's own
		config.Wrap(server.Transport)
		return config, nil
	}
	return initializer.NewPluginInitializer(func(delegate webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
				return wrap(delegate.ClientConfigFor(hostPort))
			},
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				return wrap(delegate.ClientConfigForService(name, namespace, port))
			},
		}
	}, nil)
}
