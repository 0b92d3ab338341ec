package e2e

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/test/platform"
)

// A claim of a person or a service demands what it was granted, from its status on until its release, and a policy's
// claim what it requests. Of two claims of one object, one counts. Views demand nothing.
func TestWatcherCountsClaims(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.newNamespace("a")
	const theirs = "example.com/theirs"
	claimNamed := func(name string, change func(*quotav1alpha1.ResourceClaim)) *quotav1alpha1.ResourceClaim {
		claim := &quotav1alpha1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace("a"), Name: name, Finalizers: []string{quotav1alpha1.FinalizerQuotaRelease, theirs},
			},
			Spec: quotav1alpha1.ResourceClaimSpec{
				ConsumerRef: platform.Consumer(w.name),
				Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: w.resourceType(), Amount: 2}},
				ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Namespace: w.namespace("a"), Name: name},
			},
		}
		change(claim)
		w.create(claim)
		t.Cleanup(func() { edit(w, claim, func(c *quotav1alpha1.ResourceClaim) { c.Finalizers = nil }) })
		return claim
	}
	grant := func(claim *quotav1alpha1.ResourceClaim) {
		claims.Grant(claim, catalog.New(), time.Now())
		must(t, w.api.Status().Update(w.ctx, claim))
	}

	claim := claimNamed("direct", func(*quotav1alpha1.ResourceClaim) {})
	grant(claimNamed("view", func(c *quotav1alpha1.ResourceClaim) { c.Labels = map[string]string{quotav1alpha1.LabelView: "true"} }))
	w.wantDemandOf(inventory.ClaimKind, w.name, "")

	ofPolicy := func(c *quotav1alpha1.ResourceClaim) {
		c.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: "p"}
		c.Annotations = map[string]string{quotav1alpha1.AnnotationResourceUID: "uid"}
	}
	first, twin := claimNamed("a-of-a-policy", ofPolicy), claimNamed("its-twin", ofPolicy)
	w.wantDemandOf(inventory.ClaimKind, w.name, "2 by 1")
	for _, c := range []*quotav1alpha1.ResourceClaim{first, twin} {
		w.delete(c)
		edit(w, c, func(c *quotav1alpha1.ResourceClaim) { c.Finalizers = []string{theirs} })
	}
	w.wantDemandOf(inventory.ClaimKind, w.name, "")

	grant(claim)
	w.wantDemandOf(inventory.ClaimKind, w.name, "2 by 1")
	edit(w, claim, func(c *quotav1alpha1.ResourceClaim) { c.Spec.Requests[0].Amount = 5 })
	w.wantDemandOf(inventory.ClaimKind, w.name, "5 by 1")
	if w.watcher.IsRetired(inventory.Claims, ledger.Basis{}) {
		t.Error("claims are retired")
	}

	w.delete(claim)
	edit(w, claim, func(c *quotav1alpha1.ResourceClaim) { c.Labels = map[string]string{"deletion": "begun"} })
	w.wantDemandOf(inventory.ClaimKind, w.name, "5 by 1")
	edit(w, claim, func(c *quotav1alpha1.ResourceClaim) { c.Finalizers = []string{theirs} })
	w.wantDemandOf(inventory.ClaimKind, w.name, "")
}
