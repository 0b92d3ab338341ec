// Package features evaluates feature flags by the quota of a consumer, as a provider of OpenFeature.
//
// A flag is a resource type. A boolean flag is on while the consumer has any of a resource type of type Feature. An
// integer flag is the limit of a resource type, or its free part:
//
//	provider, err := features.New(config, features.Options{
//		Consumer: quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.example.com", Kind: "Organization"},
//	})
//	...
//	err = openfeature.SetProviderAndWait(provider)
//	client := openfeature.NewClient("shop")
//	acme := openfeature.NewEvaluationContext("acme", nil) // the targeting key is the name of the consumer
//	if client.Boolean(ctx, "features.example.com/dark-mode", false, acme) {
//
// The provider watches EffectiveResourceGrants, so it needs permission to get, list and watch them: in all namespaces
// or, with a fixed Namespace, only there, as a tenant may. An evaluation reads only memory, and works without the API
// server. While there is no watch, the state of the provider is STALE.
//
// A failed evaluation returns the default value, with an error code. A consumer without quota of a resource type gets
// the default value too, with the reason DEFAULT and without an error: a feature without a grant is off if its default
// is false.
//
// It imports the API types, client-go and the SDK of OpenFeature, and nothing else of Bursar.
package features
