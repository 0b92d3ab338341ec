package claims

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
)

// TestChargesOf checks from when to when a claim of record counts.
func TestChargesOf(t *testing.T) {
	granted := func(c *quotav1alpha1.ResourceClaim) {
		c.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}
	}
	deleted := func(c *quotav1alpha1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{} }
	released := func(c *quotav1alpha1.ResourceClaim) { c.Finalizers = []string{"example.com/theirs"} }
	ofPolicy := func(c *quotav1alpha1.ResourceClaim) {
		c.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: "p"}
		c.Annotations = map[string]string{quotav1alpha1.AnnotationResourceUID: "uid"}
	}

	type changes = []func(*quotav1alpha1.ResourceClaim)
	for name, tt := range map[string]struct {
		changes
		want bool
	}{
		"undecided":                      {changes{}, false},
		"granted":                        {changes{granted}, true},
		"granted and being deleted":      {changes{granted, deleted}, true},
		"granted and released":           {changes{granted, deleted, released}, false},
		"granted, without the finalizer": {changes{granted, released}, true},
		"of a policy":                    {changes{ofPolicy}, true},
		"of a policy, being deleted":     {changes{ofPolicy, granted, deleted}, true},
		"of a policy, released":          {changes{ofPolicy, granted, deleted, released}, false},
	} {
		claim := &quotav1alpha1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Finalizers: []string{quotav1alpha1.FinalizerQuotaRelease}},
			Spec:       quotav1alpha1.ResourceClaimSpec{Requests: []quotav1alpha1.ResourceRequest{{ResourceType: "t", Amount: 2}}},
		}
		for _, change := range tt.changes {
			change(claim)
		}

		charges, err := ChargesOf(claimcache.Compact(claim))
		if err != nil || (len(charges) == 1) != tt.want {
			t.Errorf("%s: it demands %+v, %v, want that it counts: %t", name, charges, err, tt.want)
		}
	}
}
