package overview

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

// known are names with a registration of memory.
func known(change func(*quotav1alpha1.ResourceRegistration)) Names {
	registration := &quotav1alpha1.ResourceRegistration{Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: "compute.example.com/memory", Description: "Main memory", BaseUnit: "byte", DisplayUnit: "GiB", UnitConversionFactor: 1 << 30,
		ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{APIGroup: "example.com", Kind: "Project"},
	}}
	registration.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue}}
	if change != nil {
		change(registration)
	}
	return Names{AreKnown: true, byType: map[string]*quotav1alpha1.ResourceRegistration{registration.Spec.ResourceType: registration}}
}

func TestDescribe(t *testing.T) {
	named := func(name string) Names {
		return known(func(r *quotav1alpha1.ResourceRegistration) {
			r.Annotations = map[string]string{quotav1alpha1.AnnotationDisplayName: name}
		})
	}
	for name, tt := range map[string]struct {
		reason       string
		names        Names
		resourceType string
		want         Description
	}{
		"Unknown":    {"the type says what it can", Names{}, "compute.example.com/memory", Description{Title: "memory", Service: "compute.example.com"}},
		"Registered": {"the description is that of the registration", known(nil), "compute.example.com/memory", Description{Title: "memory", Service: "compute.example.com", About: "Main memory"}},
		"Named":      {"the annotation names it", named(" Memory "), "compute.example.com/memory", Description{Title: "Memory", Service: "compute.example.com", About: "Main memory"}},
		"Long":       {"a name that is too long is none", named(strings.Repeat("x", 81)), "compute.example.com/memory", Description{Title: "memory", Service: "compute.example.com", About: "Main memory"}},
		"Owned": {"the label names its service", known(func(r *quotav1alpha1.ResourceRegistration) {
			r.Labels = map[string]string{quotav1alpha1.LabelOwner: "memory.example.com"}
		}), "compute.example.com/memory", Description{Title: "memory", Service: "compute.example.com", About: "Main memory", Owner: "memory.example.com"}},
		"NoSlash":   {"a type without a service", Names{}, "seats", Description{Title: "seats"}},
		"EndsSlash": {"a type without an end", Names{}, "seats/", Description{Title: "seats/", Service: "seats"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.names.Describe(tt.resourceType); got != tt.want {
				t.Errorf("%s: got %+v, want %+v", tt.reason, got, tt.want)
			}
		})
	}
}

func TestItemOf(t *testing.T) {
	shown := func(used, limit int64, display *quotav1alpha1.DisplayedQuota) *quotav1alpha1.EffectiveResourceGrant {
		g := &quotav1alpha1.EffectiveResourceGrant{Spec: quotav1alpha1.EffectiveResourceGrantSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "example.com", Kind: "Project", Namespace: "org", Name: "web"}, ResourceType: "compute.example.com/memory",
		}}
		g.Status = quotav1alpha1.EffectiveResourceGrantStatus{TotalAllocated: used << 30, TotalLimit: limit << 30, Available: max(0, limit-used) << 30, Display: display}
		return g
	}
	display := &quotav1alpha1.DisplayedQuota{TotalAllocated: "8 GiB", TotalLimit: "10 GiB", Available: "2 GiB"}
	for name, tt := range map[string]struct {
		reason    string
		shown     *quotav1alpha1.EffectiveResourceGrant
		names     Names
		used      string
		over      string
		percent   string
		level     usage.Level
		isMetered bool
	}{
		"Near":         {"80% are near the limit", shown(8, 10, display), known(nil), "8 GiB", "", "80%", usage.Near, true},
		"Tenant":       {"the unit comes from the display", shown(12, 10, &quotav1alpha1.DisplayedQuota{TotalAllocated: "12 GiB", TotalLimit: "10 GiB", Available: "0 GiB"}), Names{}, "12 GiB", "2 GiB", "120%", usage.Exceeded, true},
		"Unregistered": {"without a registration there are base units", shown(1, 10, nil), Names{}, "1073741824", "", "10%", usage.Below, false},
		"Nothing":      {"nothing is granted", shown(0, 0, &quotav1alpha1.DisplayedQuota{TotalAllocated: "0 GiB", TotalLimit: "0 GiB", Available: "0 GiB"}), known(nil), "0 GiB", "", "0%", usage.Below, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := ItemOf(tt.shown, tt.names)
			if got.UsedText != tt.used || got.OverText != tt.over || got.Percent != tt.percent || got.Level != tt.level || got.IsMetered != tt.isMetered {
				t.Errorf("%s: got %q, %q, %q, %d, %t; want %q, %q, %q, %d, %t", tt.reason,
					got.UsedText, got.OverText, got.Percent, got.Level, got.IsMetered, tt.used, tt.over, tt.percent, tt.level, tt.isMetered)
			}
			if got.Consumer != "Project/web" || got.Reference != "Project.example.com/org/web" {
				t.Errorf("the consumer is %s and %s", got.Consumer, got.Reference)
			}
		})
	}
}

// A tenant cannot read registrations: the names come from the displayed quota.
func TestNamesForTenants(t *testing.T) {
	shown := &quotav1alpha1.EffectiveResourceGrant{Spec: quotav1alpha1.EffectiveResourceGrantSpec{ResourceType: "compute.example.com/memory"}}
	shown.Status.Display = &quotav1alpha1.DisplayedQuota{TotalAllocated: "1 GiB", TotalLimit: "2 GiB", Available: "1 GiB", Name: "Memory", Description: "Main memory", Owner: "memory.example.com"}
	want := Description{Title: "Memory", Service: "compute.example.com", About: "Main memory", Owner: "memory.example.com"}
	if got := ItemOf(shown, Names{}).Description; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTypes(t *testing.T) {
	of := schema.GroupKind{Group: "example.com", Kind: "Project"}
	if got := known(nil).Types(of); len(got) != 1 {
		t.Errorf("got %v, want the registered type", got)
	}
	inactive := known(func(r *quotav1alpha1.ResourceRegistration) { r.Status.Conditions = nil })
	if got := inactive.Types(of); len(got) != 0 {
		t.Errorf("got %v without an active registration", got)
	}
	if got := known(nil).Types(schema.GroupKind{Group: "example.com", Kind: "Organization"}); len(got) != 0 {
		t.Errorf("got %v for another kind of consumer", got)
	}
}
