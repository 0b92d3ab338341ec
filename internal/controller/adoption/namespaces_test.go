package adoption

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// watched are namespaces whose watch lags until somebody waits for it.
type watched struct {
	waits int
	err   error
}

func (w *watched) AwaitCurrent(context.Context) error {
	w.waits++
	return w.err
}

// TestScanSeesNamespaces checks that the scan of a policy on namespaces waits for their watch, and then does not rely
// on reviews: these may have seen an older namespace.
func TestScanSeesNamespaces(t *testing.T) {
	b := newBench(t, onePage("reviewed", "old"), nil)
	b.reviewed.here = map[types.UID]bool{"reviewed": true}
	policy := b.stored()
	policy.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: `namespaceObject.metadata.name == "ns"`}}
	b.Catalog.RemovePolicy(policy.Name)
	if errs := b.Catalog.SetPolicy(policy); len(errs) > 0 {
		t.Fatal(errs)
	}
	watch := &watched{err: errors.New("it lags")}
	b.Namespaces = watch
	if complete, err := b.scan(); complete || !errors.Is(err, watch.err) || len(b.adopter.calls) != 0 {
		t.Errorf("while the watch lags, the scan is complete: %t, %v, after %v", complete, err, b.adopter.calls)
	}
	watch.err = nil
	if complete, err := b.scan(); !complete || err != nil || !b.adopter.adopted["reviewed"] || watch.waits != 2 {
		t.Errorf("the scan is complete: %t, %v, after %d waits, and has adopted %v", complete, err, watch.waits, b.adopter.adopted)
	}
	clear(b.adopter.adopted)
	if complete, err := b.scan(); !complete || err != nil || b.adopter.adopted["reviewed"] {
		t.Errorf("a recheck is complete: %t, %v, and has adopted %v again", complete, err, b.adopter.adopted)
	}
}
