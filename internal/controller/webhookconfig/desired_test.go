package webhookconfig

import (
	stdcmp "cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/bursar/bursar/internal/catalog"
)

var (
	carts   = enforced("shop.example.com", "v1", "Cart")
	cartsV2 = enforced("shop.example.com", "v2", "Cart")
	maps1   = enforced("", "v1", "ConfigMap")
	gone    = enforced("gone.example.com", "v1", "Ghost")
	unknown = enforced("down.example.com", "v1", "Riddle")
)

func enforced(group, version, kind string) catalog.Trigger {
	return catalog.Trigger{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Enforced: true}
}

// following is a trigger with updates, and advised one with warnings only.
func following(t catalog.Trigger) catalog.Trigger { t.Updates = true; return t }
func advised(t catalog.Trigger) catalog.Trigger   { t.Enforced = false; return t }

type policies []catalog.Trigger

// Protected has a fixed order, like the catalog.
func (p policies) Protected() catalog.Protected {
	triggers := slices.SortedFunc(slices.Values(p), func(a, b catalog.Trigger) int {
		return stdcmp.Compare(a.Group+a.Kind+a.Version, b.Group+b.Kind+b.Version)
	})
	return catalog.Protected{Triggers: triggers, Version: catalog.Version{Policies: 0xa, Registrations: 0xb}}
}

// resources serves carts and config maps, does not serve ghosts, and fails for riddles.
type resources struct{}

func (resources) DefinedResourceFor(_ context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	switch kind {
	case carts.GroupVersionKind, cartsV2.GroupVersionKind:
		return kind.GroupVersion().WithResource("carts"), true, nil
	case maps1.GroupVersionKind:
		return kind.GroupVersion().WithResource("configmaps"), true, nil
	case unknown.GroupVersionKind:
		return schema.GroupVersionResource{}, false, errors.New("the server is restarting")
	}
	return schema.GroupVersionResource{}, false, nil
}

func newController(triggers ...catalog.Trigger) *Controller {
	return &Controller{
		Own: none{}, Server: service{}, Catalog: policies(triggers), Kinds: resources{}, Username: "bursar", SystemNamespace: "bursar-system",
	}
}

// none are no webhooks on Bursar's own kinds.
type none struct{}

func (none) Validating() []admissionregistrationv1.ValidatingWebhook { return nil }
func (none) Mutating() []admissionregistrationv1.MutatingWebhook     { return nil }

// service is a webhook server behind a Service.
type service struct{}

func (service) ClientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "bursar-system", Name: "bursar", Path: &path}}
}

func (service) Observe(string) {}

// glass is the webhook for the records of break-glass requests, of all kinds.
const glass = "break-glass.quota.miloapis.com"

// covered returns the resources of each enforcing webhook, as group/version/resource.
func covered(v validating) map[string][]string {
	all := map[string][]string{}
	for _, w := range v.webhooks {
		if w.Name == "probe.quota.miloapis.com" || w.Name == glass {
			continue
		}
		for _, rule := range w.Rules {
			covers := rule.APIGroups[0] + "/" + rule.APIVersions[0] + "/" + strings.Join(rule.Resources, "+")
			if rule.Operations[0] != admissionregistrationv1.Create {
				covers = string(rule.Operations[0]) + " " + covers
			}
			all[w.Name] = append(all[w.Name], covers)
		}
	}
	return all
}

func TestDesiredRules(t *testing.T) {
	const first, second = "enforce.quota.miloapis.com", "enforce-2.quota.miloapis.com"
	tests := map[string]struct {
		reason    string
		triggers  []catalog.Trigger
		want      map[string][]string
		wantKinds []catalog.Trigger
	}{
		"none": {reason: "without protected kinds there is nothing to ask about", want: map[string][]string{}},
		"several kinds": {reason: "one webhook does for different kinds", triggers: []catalog.Trigger{maps1, carts},
			want: map[string][]string{first: {"/v1/configmaps", "shop.example.com/v1/carts"}}, wantKinds: []catalog.Trigger{maps1, carts}},
		"two versions": {reason: "a webhook sees an object in one version only", triggers: []catalog.Trigger{cartsV2, carts},
			want: map[string][]string{first: {"shop.example.com/v1/carts"}, second: {"shop.example.com/v2/carts"}}, wantKinds: []catalog.Trigger{carts, cartsV2}},
		"not served": {reason: "what is not served cannot be created", triggers: []catalog.Trigger{gone, carts},
			want: map[string][]string{first: {"shop.example.com/v1/carts"}}, wantKinds: []catalog.Trigger{carts}},
		"updates": {reason: "a policy may follow changes, also by the scale subresource", triggers: []catalog.Trigger{following(carts)},
			want: map[string][]string{first: {"shop.example.com/v1/carts", "UPDATE shop.example.com/v1/carts+carts/scale+carts/resize"}}, wantKinds: []catalog.Trigger{following(carts)}},
		"advised": {reason: "kinds of which nothing is refused do not depend on Bursar", triggers: []catalog.Trigger{advised(carts), maps1},
			want: map[string][]string{first: {"/v1/configmaps"}, "advise.quota.miloapis.com": {"shop.example.com/v1/carts"}}, wantKinds: []catalog.Trigger{advised(carts), maps1}},
		"cannot tell": {reason: "doubt must not leave creates unchecked", triggers: []catalog.Trigger{unknown, carts},
			want: map[string][]string{first: {"down.example.com/v1/*", "shop.example.com/v1/carts"}}, wantKinds: []catalog.Trigger{unknown, carts}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := newController(tt.triggers...).desired(t.Context())
			if diff := cmp.Diff(tt.want, covered(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
			wantKinds := sets.New[schema.GroupVersionKind]()
			for _, trigger := range tt.wantKinds {
				wantKinds.Insert(trigger.GroupVersionKind)
			}
			if diff := cmp.Diff(wantKinds, got.kinds); diff != "" {
				t.Errorf("%s: kinds (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// TestVersionIsInThePath expects the version of the policies behind the answer in the path of a request.
func TestVersionIsInThePath(t *testing.T) {
	got := map[string]string{}
	for _, w := range newController(advised(carts), maps1).desired(t.Context()).webhooks {
		got[w.Name] = *w.ClientConfig.Service.Path
	}
	want := map[string]string{
		"enforce.quota.miloapis.com": "/enforce/000000000000000a-000000000000000b",
		"advise.quota.miloapis.com":  "/advise/000000000000000a-000000000000000b",
		glass:                        "/break-glass",
		"probe.quota.miloapis.com":   "/probe",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestHashStandsForContent(t *testing.T) {
	hash := func(triggers ...catalog.Trigger) string {
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

// TestMatchConditions lets a break-glass request reach only the recording webhook, and none with the power to deny it.
func TestMatchConditions(t *testing.T) {
	const notByBursar, breaking = `request.userInfo.username != "bursar"`,
		`has(request.userInfo.groups) && "quota.miloapis.com:break-glass" in request.userInfo.groups`
	got := map[string][]string{}
	for _, w := range newController(advised(carts), maps1, cartsV2).desired(t.Context()).webhooks {
		for _, condition := range w.MatchConditions {
			got[w.Name] = append(got[w.Name], condition.Expression)
		}
	}
	want := map[string][]string{glass: {notByBursar, breaking}}
	for _, name := range []string{"enforce.quota.miloapis.com", "advise.quota.miloapis.com"} {
		want[name] = []string{notByBursar, "!(" + breaking + ")"}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// TestFailurePolicies proves that enforcing webhooks fail closed, and advisory ones open.
func TestFailurePolicies(t *testing.T) {
	for _, w := range newController(advised(carts), maps1).desired(t.Context()).webhooks {
		want := admissionregistrationv1.Fail
		if strings.HasPrefix(w.Name, adviseName) || w.Name == glass {
			want = admissionregistrationv1.Ignore
		}
		if *w.FailurePolicy != want {
			t.Errorf("failurePolicy of %s is %s, want %s", w.Name, *w.FailurePolicy, want)
		}
	}
}
