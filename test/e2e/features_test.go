package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-feature/go-sdk/openfeature"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/sdk/features"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/guide"
)

func TestGuideOfFeatureFlags(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/feature-flags.md", start(t, standalone.Options{}).Kubeconfig); texts != 2 {
		t.Errorf("the guide shows %d outputs, want 2", texts)
	}
}

// A tenant evaluates flags with its own read permissions, and learns of changes.
func TestFeatureFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	flag := w.name + "/beta"
	feature := w.registration(flag)
	feature.Spec.Type, feature.Spec.ClaimingResources = quotav1alpha1.RegistrationTypeFeature, nil
	w.mustCreate(feature)
	w.waitCondition(feature, quotav1alpha1.ConditionActive, "True")
	consumer := w.consumer()
	consumer.Namespace = w.name // Bursar shows the quota there
	grant := func(name, resourceType string, amount int64) *quotav1alpha1.ResourceGrant {
		g := &quotav1alpha1.ResourceGrant{Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: consumer, Allowances: []quotav1alpha1.Allowance{
			{ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}},
		}}}
		g.Namespace, g.Name = w.name, name
		w.mustCreate(g)
		w.waitCondition(g, quotav1alpha1.ConditionActive, "True")
		return g
	}
	grant("maps", w.resourceType(), 7)

	tenant := w.newAccount("tenant")
	w.bind(tenant.user, "view", w.name)
	w.waitMay(tenant.user, attributesOf("effectiveresourcegrants.quota.miloapis.com", "watch", w.name))
	provider, err := features.New(tenant.config, features.Options{
		Consumer: quotav1alpha1.ConsumerRef{APIGroup: consumer.APIGroup, Kind: consumer.Kind, Namespace: w.name}, Namespace: w.name,
	})
	must(t, err)
	api := openfeature.NewClient(w.name)
	ready, changes := make(chan string, 1), make(chan string, 100)
	onReady := func(details openfeature.EventDetails) {
		select {
		case ready <- details.ProviderName:
		default:
		}
	}
	onChange := func(details openfeature.EventDetails) {
		for _, changed := range details.FlagChanges {
			changes <- changed
		}
	}
	api.AddHandler(openfeature.ProviderReady, &onReady)
	api.AddHandler(openfeature.ProviderConfigChange, &onChange)
	must(t, openfeature.SetNamedProviderWithContextAndWait(w.ctx, w.name, provider))
	t.Cleanup(provider.Shutdown)
	await.Receive(t, soon, ready)
	acme := openfeature.NewEvaluationContext(consumer.Name, nil)

	off, err := api.BooleanValueDetails(w.ctx, flag, false, acme)
	if err != nil || off.Value || off.Reason != openfeature.DefaultReason {
		t.Errorf("without a grant: %+v, %v", off, err)
	}
	eventually(t, func() error {
		limit, err := api.IntValueDetails(w.ctx, w.resourceType(), -1, acme)
		if err != nil || limit.Value != 7 || limit.Variant != "limit" {
			return fmt.Errorf("the limit is %+v, %w", limit, err)
		}
		return nil
	})
	given := grant("beta", flag, 1)
	eventually(t, func() error {
		on, err := api.BooleanValueDetails(w.ctx, "beta", false, acme)
		if err != nil || !on.Value || on.Variant != features.VariantOn || on.Reason != openfeature.TargetingMatchReason {
			return fmt.Errorf("with a grant: %+v, %w", on, err)
		}
		return nil
	})
	w.mustDelete(given)
	eventually(t, func() error {
		on, err := api.BooleanValueDetails(w.ctx, flag, true, acme)
		if err != nil || on.Value || on.Variant != features.VariantOff {
			return fmt.Errorf("after its grant was deleted: %+v, %w", on, err)
		}
		return nil
	})
	var changed []string
	for len(changed) < 2 {
		if name := await.Receive(t, soon, changes); name == flag {
			changed = append(changed, name)
		}
	}
	if !slices.Contains(changed, flag) {
		t.Errorf("the changes are %q", changed)
	}
}
