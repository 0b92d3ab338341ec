package integration

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bursar/bursar/internal/standalone"
)

// adminOf reads the kubeconfig that the server wrote for its administrator.
func adminOf(server *standalone.Server) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", server.AdminKubeconfigPath())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// anonymousGet asks the server for a path without credentials.
func anonymousGet(ctx context.Context, path string) (int, error) {
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(adminConfig))
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, adminConfig.Host+path, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
