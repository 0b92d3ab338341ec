package bucket

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/google/go-cmp/cmp/cmpopts"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

var byValue = []cmp.Option{cmp.AllowUnexported(indexEntry{}), cmpopts.EquateComparable(ledger.Dimensions{})}

func TestBucketIndex(t *testing.T) {
	var k bucketIndex
	other := acme
	other.Name = "other"
	k.add(acme, "projects", ledger.Dimensions{}, at("DFW"))
	k.add(acme, "projects", at("DFW"), at("LHR"))
	k.forget(acme, "projects", at("LHR"))
	k.need(acme, "castles")
	k.need(acme, "ships")
	k.made(acme, "ships")
	k.add(acme, "boats")
	k.forget(acme, "boats", ledger.Dimensions{})
	k.add(other, "projects", at("DFW"))
	k.forget(other, "projects", ledger.Dimensions{})
	k.forget(other, "never added", at("DFW"))
	want := map[string]indexEntry{
		"projects": {sets: []ledger.Dimensions{at("DFW")}},
		"castles":  {needed: true, sets: []ledger.Dimensions{}},
		"ships":    {sets: []ledger.Dimensions{}},
	}
	if diff := cmp.Diff(want, k.of(acme), byValue...); diff != "" {
		t.Errorf("types of acme (-want +got):\n%s", diff)
	}
	if len(k.byConsumer) != 1 {
		t.Errorf("%d consumers are remembered, want 1: one without types is forgotten", len(k.byConsumer))
	}
}

func TestDisplayedOtherwise(t *testing.T) {
	var k bucketIndex
	displays := map[string]display{"cpu": {unit: "core", factor: 1000}}
	displayOf := func(resourceType string) display { return displays[resourceType] }
	k.add(acme, "cpu")
	k.add(acme, "castles")
	want := []quotav1alpha1.ConsumerRef{acme}
	if diff := cmp.Diff(want, k.displayedOtherwise(displayOf)); diff != "" {
		t.Errorf("a registration came (-want +got):\n%s", diff)
	}
	k.display(acme, "cpu", displays["cpu"])
	if got := k.displayedOtherwise(displayOf); got != nil {
		t.Errorf("got %v, want nobody: everything is displayed as registered", got)
	}
	for name, other := range map[string]display{"another unit": {unit: "core", factor: 1}, "a name": {name: "CPU", unit: "core", factor: 1000}} {
		displays["cpu"] = other
		if diff := cmp.Diff(want, k.displayedOtherwise(displayOf)); diff != "" {
			t.Errorf("%s was registered (-want +got):\n%s", name, diff)
		}
	}
	delete(displays, "cpu")
	if diff := cmp.Diff(want, k.displayedOtherwise(displayOf)); diff != "" {
		t.Errorf("a registration went (-want +got):\n%s", diff)
	}
}
