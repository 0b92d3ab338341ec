package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// documentedQuery is the selector for a consumer's claims from the page of messages.
func (w *world) documentedQuery() client.MatchingLabelsSelector {
	w.Helper()
	page, err := os.ReadFile("../../docs/reference/messages.md")
	must(w.T, err)
	found := regexp.MustCompile("`kubectl get rclaim -A -l ([^ `]+)`").FindSubmatch(page)
	if found == nil {
		w.Fatal("the page of messages has no query for the claims of a consumer")
	}
	query := strings.NewReplacer("KIND", w.consumer().Kind, "NAME", w.consumer().Name).Replace(string(found[1]))
	selector, err := labels.Parse(query)
	must(w.T, err)
	return client.MatchingLabelsSelector{Selector: selector}
}

// The documented query finds all claims of a consumer: those of policies, direct ones, also with other labels, and
// claims from before there were labels.
func TestClaimsAreFoundByConsumer(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 9)
	w.mustCreate(w.configMap("a"))
	w.claimOf("a")
	direct, other := w.claim("direct", 1), w.claim("other", 1)
	other.Labels = map[string]string{quotav1alpha1.LabelConsumerName: "somebody-else"}
	w.mustCreate(direct)
	w.mustCreate(other)
	w.waitCondition(direct, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	finds := func() {
		t.Helper()
		eventually(w, func() error {
			var list quotav1alpha1.ResourceClaimList
			if err := admin.List(w.ctx, &list, w.documentedQuery()); err != nil {
				return err
			}
			var names []string
			for _, claim := range list.Items {
				names = append(names, claim.Name)
			}
			slices.Sort(names)
			if want := []string{w.name + "-a", "direct", "other"}; !slices.Equal(names, slices.Sorted(slices.Values(want))) {
				return fmt.Errorf("the query finds %q, want %q", names, want)
			}
			return nil
		})
	}
	finds()
	eventually(w, func() error { // nobody completes Bursar's own writes
		if err := bursar.Get(w.ctx, client.ObjectKeyFromObject(direct), direct); err != nil {
			return err
		}
		direct.Labels = nil
		return bursar.Update(w.ctx, direct)
	})
	finds()
}

// The manifest of a claim, without Bursar's additions, may replace the claim.
func TestClaimIsReplacedByItsManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("base", 1)
	claim := w.claim("direct", 1)
	w.mustCreate(claim.DeepCopy())
	stored := claim.DeepCopy()
	w.waitCondition(stored, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(claim), stored); err != nil {
			return err
		}
		manifest := w.claim("direct", 1)
		manifest.ResourceVersion = stored.ResourceVersion // as kubectl replace does
		return admin.Update(w.ctx, manifest)
	})
	after := w.claim("direct", 1)
	must(t, admin.Get(w.ctx, client.ObjectKeyFromObject(after), after))
	if !slices.Contains(after.Finalizers, quotav1alpha1.FinalizerQuotaRelease) || after.Labels[quotav1alpha1.LabelConsumerName] != w.name {
		t.Errorf("the replaced claim is %+v", after.ObjectMeta)
	}
	w.mustDelete(after)
	w.waitGone(after)
	w.wantBucket(1, 0, 1, 0)
}

// An uninstallation leaves a claim without the finalizer. The claim gets it again, so its deletion returns its charge
// at once.
func TestClaimGetsItsFinalizerBack(t *testing.T) {
	t.Parallel()
	w := newClaimedWorld(t, 1)
	object := w.configMap("a")
	w.mustCreate(object)
	claim := w.claimOf("a")
	eventually(w, func() error {
		return bursar.Patch(w.ctx, claim, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if !slices.Contains(claim.Finalizers, quotav1alpha1.FinalizerQuotaRelease) {
			return fmt.Errorf("claim %s has the finalizers %q", claim.Name, claim.Finalizers)
		}
		return nil
	})
	if err := w.deleteNow(object, metav1.DeletePropagationBackground); err != nil {
		t.Fatal(err)
	}
	// A create waits three seconds for a release. Beside other tests, the release may take longer.
	other := w.configMap("b")
	w.cleanUp(other)
	eventually(w, func() error { return admin.Create(w.ctx, other) })
}
