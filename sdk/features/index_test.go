package features

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// After a move, a consumer has two effective grants until Bursar deletes the stale one. A provider that lists both, in
// any order, goes on with the living one, without another update of it.
func TestMovedGrant(t *testing.T) {
	const dark = "features.example.com/dark"
	began := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	in := func(namespace string, age time.Duration, feature quotav1alpha1.FeatureState) *quotav1alpha1.EffectiveResourceGrant {
		e := shown(dark, quotav1alpha1.EffectiveResourceGrantStatus{Feature: feature})
		e.Namespace, e.CreationTimestamp = namespace, metav1.NewTime(began.Add(-age))
		return e
	}
	for name, stale := range map[string]*quotav1alpha1.EffectiveResourceGrant{
		"the same value":              in("old", time.Hour, quotav1alpha1.FeatureOn),
		"another value":               in("old", time.Hour, quotav1alpha1.FeatureOff),
		"another value, a later name": in("z-old", time.Hour, quotav1alpha1.FeatureOff),
	} {
		living := in("present", 0, quotav1alpha1.FeatureOn)
		for order, objects := range map[string][]*quotav1alpha1.EffectiveResourceGrant{"the stale one last": {living, stale}, "the living one last": {stale, living}} {
			x := &index{}
			for _, object := range append(objects, objects...) { // a relist sets them again
				x.set(object)
			}
			want := func(when string) {
				t.Helper()
				if q, isFound, err := x.find(acme, dark); err != nil || !isFound || q.feature != quotav1alpha1.FeatureOn {
					t.Errorf("%s, %s, %s: the feature is %q (found: %t, %v)", name, order, when, q.feature, isFound, err)
				}
			}
			want("both")
			if x.remove(stale) {
				t.Errorf("%s, %s: the end of the stale one changes a flag", name, order)
			}
			want("one")
			if !x.remove(living) || len(x.byConsumer) != 0 || len(x.byEnd) != 0 {
				t.Errorf("%s, %s: without both, the index has %v and %v", name, order, x.byConsumer, x.byEnd)
			}
		}
	}
}

// If the newest one ends first, the other one counts, with a change only of another value.
func TestNewestGrantEndsFirst(t *testing.T) {
	for feature, isChange := range map[quotav1alpha1.FeatureState]bool{quotav1alpha1.FeatureOn: false, quotav1alpha1.FeatureOff: true} {
		x := &index{}
		left, newest := shown("a/dark", quotav1alpha1.EffectiveResourceGrantStatus{Feature: feature}), shown("a/dark", quotav1alpha1.EffectiveResourceGrantStatus{Feature: quotav1alpha1.FeatureOn})
		newest.Namespace, newest.CreationTimestamp = "new", metav1.NewTime(time.Now())
		x.set(left)
		if got := x.set(newest); got != isChange {
			t.Errorf("from %s to On: changed: %t", feature, got)
		}
		if got := x.remove(newest); got != isChange {
			t.Errorf("back to %s: changed: %t", feature, got)
		}
		if q, isFound, _ := x.find(acme, "dark"); !isFound || q.feature != feature {
			t.Errorf("the feature is %q (found: %t), want %s", q.feature, isFound, feature)
		}
	}
}

// A short key names the same resource type for all consumers, or none.
func TestShortKeys(t *testing.T) {
	on := quotav1alpha1.EffectiveResourceGrantStatus{Feature: quotav1alpha1.FeatureOn}
	globex := quotav1alpha1.ConsumerRef{APIGroup: acme.APIGroup, Kind: acme.Kind, Name: "globex"}
	x := &index{}
	x.set(shown("features.example.com/dark", on))
	others := shown("beta.other.com/dark", on)
	others.Namespace, others.Spec.ConsumerRef = "globex", globex

	if _, isFound, err := x.find(globex, "dark"); isFound || err != nil {
		t.Errorf("without quota: found: %t, %v", isFound, err)
	}
	x.set(others)
	for _, consumer := range []quotav1alpha1.ConsumerRef{acme, globex} {
		_, isFound, err := x.find(consumer, "dark")
		if isFound || err == nil || !strings.Contains(err.Error(), "several resource types end in dark: beta.other.com/dark, features.example.com/dark") {
			t.Errorf("an ambiguous key of %s: found: %t, %v", consumer.Name, isFound, err)
		}
	}
	for consumer, wants := range map[quotav1alpha1.ConsumerRef]bool{acme: true, globex: false} {
		if _, isFound, err := x.find(consumer, "features.example.com/dark"); isFound != wants || err != nil {
			t.Errorf("the whole name for %s: found: %t, %v", consumer.Name, isFound, err)
		}
	}
	x.set(shown("dark", on))
	if _, isFound, err := x.find(globex, "dark"); isFound || err != nil {
		t.Errorf("a type with this whole name, of another consumer: found: %t, %v", isFound, err)
	}
	x.remove(shown("dark", on))
	x.remove(others)
	if _, isFound, err := x.find(acme, "dark"); !isFound || err != nil {
		t.Errorf("with one type again: found: %t, %v", isFound, err)
	}
}
