package webhookconfig

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Published reads the certificate authorities in the stored webhook configurations.
type Published struct{ Client kubernetes.Interface }

// Authorities returns the CA bundles, in PEM, for API servers to verify the webhook servers. There are none before the
// first publication.
func (p Published) Authorities(ctx context.Context) ([][]byte, error) {
	stored, err := read(ctx, p.Client)
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

// FollowPaths calls f with the path of every published webhook, now and later, until ctx ends.
func FollowPaths(ctx context.Context, client kubernetes.Interface, f func(path string)) error {
	see := func(object any) {
		for _, config := range clientConfigs(object) {
			f(pathOf(config))
		}
	}
	_, _, err := follow(ctx, client, cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, object any) { see(object) }})
	return err
}

func clientConfigs(object any) (configs []admissionregistrationv1.WebhookClientConfig) {
	switch configuration := object.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range configuration.Webhooks {
			configs = append(configs, configuration.Webhooks[i].ClientConfig)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range configuration.Webhooks {
			configs = append(configs, configuration.Webhooks[i].ClientConfig)
		}
	}
	return configs
}
