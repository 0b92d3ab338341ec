package webhooks

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	carts   = schema.GroupVersionKind{Group: "shop.example.com", Version: "v1", Kind: "Cart"}
	cartsV2 = schema.GroupVersionKind{Group: "shop.example.com", Version: "v2", Kind: "Cart"}
	maps1   = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	gone    = schema.GroupVersionKind{Group: "gone.example.com", Version: "v1", Kind: "Ghost"}
	unknown = schema.GroupVersionKind{Group: "down.example.com", Version: "v1", Kind: "Riddle"}
)

type policies []schema.GroupVersionKind

func (p policies) Triggers() []schema.GroupVersionKind { return slices.Clone(p) }

// resources serves carts and config maps, does not serve ghosts, and cannot tell of riddles.
type resources struct{}

func (resources) DefinedResourceFor(_ context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	switch kind {
	case carts, cartsV2:
		return kind.GroupVersion().WithResource("carts"), true, nil
	case maps1:
		return kind.GroupVersion().WithResource("configmaps"), true, nil
	case unknown:
		return schema.GroupVersionResource{}, false, errors.New("the server is restarting")
	}
	return schema.GroupVersionResource{}, false, nil
}

func newController(triggers ...schema.GroupVersionKind) *Controller {
	return &Controller{
		Catalog: policies(triggers), Kinds: resources{}, Username: "bursar", SystemNamespace: "bursar-system",
		ClientConfig: func(path string) admissionregistrationv1.WebhookClientConfig {
			return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "bursar-system", Name: "bursar", Path: &path}}
		},
	}
}

// covered tells what each enforcing webhook covers, as group/version/resource.
func covered(v validating) map[string][]string {
	all := map[string][]string{}
	for _, w := range v.webhooks {
		if w.Name == "probe.quota.miloapis.com" {
			continue
		}
		for _, rule := range w.Rules {
			all[w.Name] = append(all[w.Name], rule.APIGroups[0]+"/"+rule.APIVersions[0]+"/"+rule.Resources[0])
		}
	}
	return all
}

func TestDesiredRules(t *testing.T) {
	const first, second = "enforce.quota.miloapis.com", "enforce-2.quota.miloapis.com"
	tests := map[string]struct {
		reason    string
		triggers  []schema.GroupVersionKind
		want      map[string][]string
		wantKinds []schema.GroupVersionKind
	}{
		"none": {reason: "without protected kinds there is nothing to ask about", want: map[string][]string{}},
		"several kinds": {reason: "one webhook does for different kinds", triggers: []schema.GroupVersionKind{maps1, carts},
			want: map[string][]string{first: {"/v1/configmaps", "shop.example.com/v1/carts"}}, wantKinds: []schema.GroupVersionKind{maps1, carts}},
		"two versions": {reason: "a webhook sees an object in one version only", triggers: []schema.GroupVersionKind{cartsV2, carts},
			want: map[string][]string{first: {"shop.example.com/v1/carts"}, second: {"shop.example.com/v2/carts"}}, wantKinds: []schema.GroupVersionKind{carts, cartsV2}},
		"not served": {reason: "what is not served cannot be created", triggers: []schema.GroupVersionKind{gone, carts},
			want: map[string][]string{first: {"shop.example.com/v1/carts"}}, wantKinds: []schema.GroupVersionKind{carts}},
		"cannot tell": {reason: "doubt must not leave creates unchecked", triggers: []schema.GroupVersionKind{unknown, carts},
			want: map[string][]string{first: {"down.example.com/v1/*", "shop.example.com/v1/carts"}}, wantKinds: []schema.GroupVersionKind{unknown, carts}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := newController(tt.triggers...).desired(t.Context())
			if diff := cmp.Diff(tt.want, covered(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
			wantKinds := map[schema.GroupVersionKind]bool{}
			for _, kind := range tt.wantKinds {
				wantKinds[kind] = true
			}
			if diff := cmp.Diff(wantKinds, got.kinds); diff != "" {
				t.Errorf("%s: kinds (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// TestRuleThatGoesIsNotInEffect looks at the moment at which it is decided what to store.
func TestRuleThatGoesIsNotInEffect(t *testing.T) {
	c := newController(carts)
	c.inEffect = map[schema.GroupVersionKind]bool{carts: true, maps1: true}
	c.desired(t.Context())
	if c.InEffect(maps1) {
		t.Error("the rule for ConfigMaps is about to go, so nobody may rely on it")
	}
	if !c.InEffect(carts) || !c.Synced() {
		t.Error("the rule for Carts stays")
	}
	c = newController(carts)
	if c.desired(t.Context()); c.InEffect(carts) || c.Synced() {
		t.Error("a rule that comes is in effect once it has been observed")
	}
}

func TestHashStandsForContent(t *testing.T) {
	hash := func(triggers ...schema.GroupVersionKind) string {
		return newController(triggers...).desired(t.Context()).hash
	}
	if hash(carts, maps1) != hash(maps1, carts) {
		t.Error("the order of the policies changed the hash, and with it the configuration, for nothing")
	}
	if hash(carts) == hash(maps1) {
		t.Error("different content has the same hash, so that a probe of the old one proves the new one")
	}
	if _, mutating := newController().desiredMutating(); mutating == hash() {
		t.Error("both configurations have the same hash, so that one probe answers for both")
	}
}
