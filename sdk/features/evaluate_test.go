package features

import (
	"strings"
	"testing"

	"github.com/open-feature/go-sdk/openfeature"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

var acme = quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization", Name: "acme"}

func shown(resourceType string, status quotav1alpha1.EffectiveResourceGrantStatus) *quotav1alpha1.EffectiveResourceGrant {
	e := &quotav1alpha1.EffectiveResourceGrant{Spec: quotav1alpha1.EffectiveResourceGrantSpec{ConsumerRef: acme, ResourceType: resourceType}, Status: status}
	e.Namespace, e.Name, e.Status.ObservedGeneration = "acme", strings.ReplaceAll(resourceType, "/", "-"), 1
	return e
}

// known returns a provider with the quota of acme.
func known() *Provider {
	p := &Provider{options: Options{Consumer: quotav1alpha1.ConsumerRef{APIGroup: acme.APIGroup, Kind: acme.Kind}}}
	p.known.Store(knownIndex())
	return p
}

func knownIndex() *index {
	x := &index{}
	for resourceType, status := range map[string]quotav1alpha1.EffectiveResourceGrantStatus{
		"features.example.com/dark": {TotalLimit: 1, TotalAllocated: 5, Available: 1, Feature: quotav1alpha1.FeatureOn},
		"features.example.com/beta": {Feature: quotav1alpha1.FeatureOff},
		"example.com/storage": {TotalLimit: 2048, TotalAllocated: 512, Available: 1536, Display: &quotav1alpha1.DisplayedQuota{
			Name: "Storage", TotalLimit: "2 KiB",
		}},
		"a.example.com/same": {TotalLimit: 1}, "b.example.com/same": {TotalLimit: 2},
	} {
		x.set(shown(resourceType, status))
	}
	return x
}

func TestBooleanFlags(t *testing.T) {
	named := openfeature.FlattenedContext{openfeature.TargetingKey: "acme"}
	for name, tc := range map[string]struct {
		reason, flag string
		context      openfeature.FlattenedContext
		fallback     bool
		want         bool
		variant      string
		wantReason   openfeature.Reason
		code         openfeature.ErrorCode
	}{
		"on":          {"a granted feature is on", "features.example.com/dark", named, false, true, "on", openfeature.TargetingMatchReason, ""},
		"short":       {"the last part is a key too", "dark", named, false, true, "on", openfeature.TargetingMatchReason, ""},
		"off":         {"a feature without grants is off", "beta", named, true, false, "off", openfeature.TargetingMatchReason, ""},
		"none":        {"without quota the default value counts", "nope", named, true, true, "", openfeature.DefaultReason, ""},
		"other":       {"consumers are told apart", "dark", openfeature.FlattenedContext{"consumer.name": "other"}, false, false, "", openfeature.DefaultReason, ""},
		"whole":       {"the context may name everything", "dark", openfeature.FlattenedContext{"consumer.name": "acme", "consumer.kind": "Organization", "consumer.group": acme.APIGroup}, false, true, "on", openfeature.TargetingMatchReason, ""},
		"other group": {"a group is part of the consumer", "dark", openfeature.FlattenedContext{"consumer.name": "acme", "consumer.group": "x.example.com"}, true, true, "", openfeature.DefaultReason, ""},
		"nobody":      {"there is no flag of nobody", "dark", nil, true, true, "", openfeature.ErrorReason, openfeature.TargetingKeyMissingCode},
		"no text":     {"a name is a text", "dark", openfeature.FlattenedContext{"consumer.name": 7}, true, true, "", openfeature.ErrorReason, openfeature.TargetingKeyMissingCode},
		"ambiguous":   {"a key names one type", "same", named, true, true, "", openfeature.ErrorReason, openfeature.FlagNotFoundCode},
		"no feature":  {"a limit is no boolean", "example.com/storage", named, true, true, "", openfeature.ErrorReason, openfeature.TypeMismatchCode},
	} {
		got := known().BooleanEvaluation(t.Context(), tc.flag, tc.fallback, tc.context)
		if got.Value != tc.want || got.Variant != tc.variant || got.Reason != tc.wantReason || got.ResolutionDetail().ErrorCode != tc.code {
			t.Errorf("%s (%s): got %+v", name, tc.reason, got)
		}
	}
	p := known()
	p.options.Consumer.Kind = ""
	if got := p.BooleanEvaluation(t.Context(), "dark", true, named); !got.Value || got.ResolutionDetail().ErrorCode != openfeature.InvalidContextCode {
		t.Errorf("without a kind: %+v", got)
	}
}

// The evaluation context of a service may name its user, and must not select another consumer's flags.
func TestFixedConsumer(t *testing.T) {
	p := known()
	p.options.Consumer.Name = acme.Name
	for name, flat := range map[string]openfeature.FlattenedContext{
		"no context": nil,
		"a user":     {openfeature.TargetingKey: "jane"},
		"another":    {"consumer.name": "other", "consumer.group": "x.example.com", "consumer.kind": "Project", "consumer.namespace": "other"},
		"no text":    {openfeature.TargetingKey: 7},
	} {
		if got := p.BooleanEvaluation(t.Context(), "dark", false, flat); !got.Value {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if _, err := New(&rest.Config{}, Options{Consumer: quotav1alpha1.ConsumerRef{Name: acme.Name}}); err == nil {
		t.Error("a provider has a consumer without a kind")
	}
}

func TestOtherFlags(t *testing.T) {
	p, named := known(), openfeature.FlattenedContext{openfeature.TargetingKey: "acme"}
	for flag, want := range map[string]int64{
		"storage": 2048, "storage#limit": 2048, "example.com/storage#available": 1536, "storage#used": 512, "dark#used": 5, "nope": -1, "storage#nope": -1,
	} {
		if got := p.IntEvaluation(t.Context(), flag, -1, named); got.Value != want {
			t.Errorf("%s is %+v, want %d", flag, got, want)
		}
	}
	if got := p.IntEvaluation(t.Context(), "storage#nope", -1, named); got.ResolutionDetail().ErrorCode != openfeature.FlagNotFoundCode {
		t.Errorf("an unknown figure: %+v", got)
	}
	if got := p.FloatEvaluation(t.Context(), "storage#used", -1, named); got.Value != 512 || got.Variant != "used" {
		t.Errorf("as a float: %+v", got)
	}
	for flag, want := range map[string]string{"storage": "2 KiB", "dark": "on", "beta": "off", "nope": "default", "a.example.com/same": "default"} {
		if got := p.StringEvaluation(t.Context(), flag, "default", named); got.Value != want {
			t.Errorf("%s is %+v, want %s", flag, got, want)
		}
	}
	if got := p.ObjectEvaluation(t.Context(), "dark", 7, named); got.Value != 7 || got.ResolutionDetail().ErrorCode != openfeature.TypeMismatchCode {
		t.Errorf("as an object: %+v", got)
	}
}

// Before the first list the default value counts, with an error.
func TestFlagsBeforeTheFirstList(t *testing.T) {
	got := (&Provider{}).BooleanEvaluation(t.Context(), "dark", true, openfeature.FlattenedContext{openfeature.TargetingKey: "acme"})
	if !got.Value || got.Reason != openfeature.ErrorReason || got.ResolutionDetail().ErrorCode != openfeature.ProviderNotReadyCode {
		t.Errorf("got %+v", got)
	}
}
