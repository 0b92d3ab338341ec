package webhooks

import (
	"context"

	"k8s.io/client-go/kubernetes"
)

// Authorities returns the bundles, in PEM, by one of which API servers check whoever answers a webhook as it is
// stored. There are none before webhooks are.
func Authorities(ctx context.Context, client kubernetes.Interface) ([][]byte, error) {
	stored, err := read(ctx, client)
	if err != nil {
		return nil, err
	}
	var bundles [][]byte
	for i := range stored.validating.Webhooks {
		bundles = append(bundles, stored.validating.Webhooks[i].ClientConfig.CABundle)
	}
	for i := range stored.mutating.Webhooks {
		bundles = append(bundles, stored.mutating.Webhooks[i].ClientConfig.CABundle)
	}
	return bundles, nil
}
