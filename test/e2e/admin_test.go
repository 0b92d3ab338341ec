package e2e

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"
)

// anonymousGet asks the server for a path without credentials.
func anonymousGet(ctx context.Context, path string) (int, error) {
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(started.Config))
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, started.Config.Host+path, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
