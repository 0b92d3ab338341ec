package usage

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/naming"
)

// recordedEvents are the notes of events.
type recordedEvents []string

func (e *recordedEvents) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	object := regarding.(*corev1.ObjectReference)
	*e = append(*e, fmt.Sprintf("%s %s/%s %s %s: ", object.Kind, object.Namespace, object.Name, kind, reason)+fmt.Sprintf(note, args...))
}

func TestNotifier(t *testing.T) {
	registrations := collector().Registrations
	shown := &source{registrations: registrations}
	var said recordedEvents
	n := &Notifier{
		Source:        shown,
		Registrations: registrations, Events: events.NewRecorder(&said), Log: logr.Discard(),
	}
	show := func(used, limit int64) {
		b := bucket("web", used, limit)
		b.Namespace = "org"
		b.OwnerReferences = []metav1.OwnerReference{{Kind: "EffectiveResourceGrant", Name: "vcpus-of-web", Controller: new(true)}}
		part := b
		part.Spec.Dimensions = map[string]string{"region": "eu"}
		shown.buckets = []quotav1alpha1.AllowanceBucket{part, b, bucket("web", 1, 1)}
		n.notifyChanges(t.Context())
	}
	const prefix = "EffectiveResourceGrant org/vcpus-of-web "
	for _, step := range []struct {
		reason      string
		used, limit int64
		want        []string
	}{
		{"what was there before is not told", 9000, 10000, nil},
		{"nothing new", 8100, 10000, nil},
		{"a little less", 7600, 10000, nil},
		{"less", 7000, 10000, []string{prefix + "Normal QuotaBelowThreshold: Project web uses 7 vCPU of 10 vCPU of vcpus, which is less than 80% of its limit."}},
		{"near again", 8000, 10000, []string{prefix + "Warning QuotaNearLimit: Project web uses 8 vCPU of 10 vCPU of vcpus, which is 80% or more of its limit."}},
		{"all", 10000, 10000, []string{prefix + "Warning QuotaReached: Project web uses all vcpus that it is granted: 10 vCPU of 10 vCPU. Nothing more is granted until it uses less, or has a higher limit."}},
		{"a lower limit", 10000, 5000, []string{prefix + "Warning QuotaExceeded: Project web uses more vcpus than it is granted: 10 vCPU of 5 vCPU. Bursar takes nothing back, and grants nothing more until it uses less."}},
		{"all again", 5000, 5000, []string{prefix + "Warning QuotaReached: Project web uses all vcpus that it is granted: 5 vCPU of 5 vCPU. Nothing more is granted until it uses less, or has a higher limit."}},
	} {
		said = nil
		show(step.used, step.limit)
		if diff := cmp.Diff(step.want, []string(said)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.reason, diff)
		}
	}
}

// Events name a resource type as denials do: after its display name.
func TestNotifierNamesTheType(t *testing.T) {
	registrations := collector().Registrations
	r := &quotav1alpha1.ResourceRegistration{Spec: quotav1alpha1.ResourceRegistrationSpec{ResourceType: "vcpus", DisplayUnit: "vCPU", UnitConversionFactor: 1000}}
	r.Name, r.Annotations = "vcpus", map[string]string{quotav1alpha1.AnnotationDisplayName: "Virtual\nCPUs"}
	apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	registrations.SetRegistration(r)
	var said recordedEvents
	shown := &source{registrations: registrations}
	n := &Notifier{Source: shown, Registrations: registrations, Events: events.NewRecorder(&said), Log: logr.Discard()}
	for _, used := range []int64{0, 9000} {
		b := bucket("web", used, 10000)
		b.OwnerReferences = []metav1.OwnerReference{{Kind: "EffectiveResourceGrant", Name: "vcpus-of-web", Controller: new(true)}}
		shown.buckets = []quotav1alpha1.AllowanceBucket{b}
		n.notifyChanges(t.Context())
	}
	want := []string{"EffectiveResourceGrant /vcpus-of-web Warning QuotaNearLimit: Project web uses 9 vCPU of 10 vCPU of Virtual CPUs (vcpus), which is 80% or more of its limit."}
	if diff := cmp.Diff(want, []string(said)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The threshold of the consumer itself comes first, then the grant's, then the registration's, then the platform's.
func TestThresholds(t *testing.T) {
	registrations := collector().Registrations
	grant := func(name, resourceType, percent string, isActive metav1.ConditionStatus) quotav1alpha1.ResourceGrant {
		g := quotav1alpha1.ResourceGrant{Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: project(name), Allowances: []quotav1alpha1.Allowance{{ResourceType: resourceType}}}}
		g.Annotations = map[string]string{quotav1alpha1.AnnotationAlertThreshold: percent}
		apimeta.SetStatusCondition(&g.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: isActive})
		return g
	}
	r := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "gpus", Annotations: map[string]string{quotav1alpha1.AnnotationAlertThreshold: "50"}}, Spec: quotav1alpha1.ResourceRegistrationSpec{ResourceType: "gpus"}}
	apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	registrations.SetRegistration(r)
	registrations.ConsumerNamespaces = &naming.ConsumerNamespaces{System: "bursar-system"}
	alert := func(namespace, name, resourceType string, percent int32) quotav1alpha1.QuotaAlert {
		a := quotav1alpha1.QuotaAlert{Spec: quotav1alpha1.QuotaAlertSpec{
			ConsumerRef: project(name), Thresholds: []quotav1alpha1.QuotaAlertThreshold{{ResourceType: resourceType, Percent: percent}},
		}}
		a.Namespace = namespace
		return a
	}
	thresholds := NewThresholds([]quotav1alpha1.QuotaAlert{
		alert("bursar-system", "own", "vcpus", 85), alert("bursar-system", "own", "vcpus", 75), alert("bursar-system", "own", "vcpus", 95),
		alert("bursar-system", "low", "vcpus", 5), alert("bursar-system", "high", "vcpus", 100), alert("bursar-system", "own", "gpus", 90),
		alert("elsewhere", "victim", "vcpus", 40),
	}, []quotav1alpha1.ResourceGrant{
		grant("vip", "vcpus", "70", metav1.ConditionTrue), grant("vip", "vcpus", "60", metav1.ConditionTrue), grant("vip", "vcpus", "90", metav1.ConditionTrue),
		grant("bad", "vcpus", "none", metav1.ConditionTrue), grant("late", "vcpus", "10", metav1.ConditionFalse), grant("vip", "gpus", "95", metav1.ConditionTrue),
		grant("own", "vcpus", "20", metav1.ConditionTrue),
	}, registrations, config.Metrics{AlertThresholdPercent: 80, ConsumerThresholds: config.ConsumerThresholds{MinPercent: 30, MaxPercent: 95}})
	for _, tt := range []struct {
		reason, name, resourceType string
		want                       int
	}{
		{"the lowest of its own before a lower one of a grant", "own", "vcpus", 75},
		{"its own before the registration", "own", "gpus", 90},
		{"one from before the lower bound rose", "low", "vcpus", 30},
		{"one from before the upper bound fell", "high", "vcpus", 95},
		{"nobody speaks for another consumer", "victim", "vcpus", 80},
		{"the lowest of its grants", "vip", "vcpus", 60},
		{"a grant before the registration", "vip", "gpus", 95},
		{"the registration before the platform", "web", "gpus", 50},
		{"the platform", "web", "vcpus", 80},
		{"what cannot be read is nothing", "bad", "vcpus", 80},
		{"a grant that is not active gives nothing", "late", "vcpus", 80},
	} {
		if got := thresholds.Percent(project(tt.name), tt.resourceType); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.reason, got, tt.want)
		}
	}
}
