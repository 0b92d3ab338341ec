package quotausage_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/quotausage"
	"github.com/bursar/bursar/internal/admission/review/reviewtest"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
)

// home is the namespace with the quota objects of every consumer.
const home = "organization-acme"

var (
	acme     = quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Organization", Name: "acme"}
	machines = schema.GroupVersionKind{Group: "compute.example.com", Version: "v1", Kind: "Machine"}
)

// world is an inventory with its answerer.
type world struct {
	all     *inventory.Inventory
	kind    *inventory.Kind
	granted map[string]bool
	err     error
	asked   int
	kinds   []schema.GroupVersionKind
	loading bool
}

// newWorld returns a world with objects of amounts 1, 2 and so on, in namespaces. An empty one is of a cluster-scoped
// object. The user has some permissions, as RESOURCE NAMESPACE NAME.
func newWorld(namespaces []string, granted ...string) *world {
	w := &world{all: inventory.New(), granted: map[string]bool{}}
	w.kind = w.all.Add(inventory.NameOf(machines), types.NamespacedName.String)
	objects := map[int]inventory.Object{}
	for n, namespace := range namespaces {
		objects[n] = inventory.Object{
			NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("m", n)}, UID: types.UID(fmt.Sprint(n)), Version: 1,
			Demands: []inventory.Demand{{Policy: "p", Consumer: acme, Charges: []ledger.Charge{{ResourceType: "machines", Amount: ledger.Amount(n + 1)}}}},
		}
	}
	w.kind.Replace(ledger.Basis{Objects: 1}, maps.Values(objects))
	for _, each := range granted {
		w.granted[each] = true
	}
	return w
}

// May implements [sight.Permissions].
func (w *world) May(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	w.asked++
	if what.Verb != "get" || what.Group != quotav1alpha1.GroupName {
		return false, fmt.Errorf("nobody should ask for %+v", what)
	}
	return w.granted[strings.Join([]string{what.Resource, what.Namespace, what.Name}, " ")], w.err
}

// Uncounted implements [quotausage.Kinds].
func (w *world) Uncounted() []schema.GroupVersionKind { return w.kinds }

// ConsumerNamespace implements [quotausage.Consumers].
func (*world) ConsumerNamespace(quotav1alpha1.ConsumerRef) string { return home }

// ask returns the answer to a question asked in the namespace team-1, and the status in it.
func (w *world) ask(t *testing.T, spec quotav1alpha1.QuotaUsageSpec) (*admissionv1.AdmissionResponse, *quotav1alpha1.QuotaUsageStatus) {
	t.Helper()
	ready := make(chan struct{})
	if !w.loading {
		close(ready)
	}
	handler := quotausage.New(quotausage.Dependencies{Inventory: w.all, Kinds: w, Consumers: w, Permissions: w, Ready: ready}).Handler()
	return reviewtest.AskFor[quotav1alpha1.QuotaUsageStatus](t.Context(), t, handler, "/quotausage?timeout=1s", &quotav1alpha1.QuotaUsage{Spec: spec}, true)
}
