package enforce

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
)

const (
	// permissionTTL is how long the handler remembers the permissions of a user.
	permissionTTL = 10 * time.Second
	// holdersTTL is how long the handler remembers the largest holders.
	holdersTTL = 2 * time.Second
	// holdersMax is the number of holders in a denial.
	holdersMax = 3
)

// maySee reports whether the user of a request may see the figures of a consumer. Users may if they can get the
// consumer's EffectiveResourceGrants. It reports false if the API server does not answer in time.
func (h *Handler) maySee(ctx context.Context, request *admissionv1.AdmissionRequest, consumer quotav1alpha1.ConsumerRef) bool {
	return h.mayRead(ctx, request, "get", "effectiveresourcegrants", h.Catalog.ConsumerNamespace(consumer))
}

func (h *Handler) mayRead(ctx context.Context, request *admissionv1.AdmissionRequest, verb, resource, namespace string) bool {
	if h.Permissions == nil {
		return true
	}
	key := fmt.Sprintf("%q %s %s %s", fmt.Sprint(request.UserInfo), verb, resource, namespace)
	if known, ok := h.cached.Get(key); ok {
		return known.(bool)
	}
	may, err := h.Permissions.May(ctx, request.UserInfo, authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: verb, Group: quotav1alpha1.GroupName, Resource: resource,
	})
	if err != nil {
		h.Log.V(1).Info("leaving the figures out of a denial, because the API server did not report the user's permissions", "user", request.UserInfo.Username, "err", err.Error())
		return false
	}
	h.cached.Set(key, may, permissionTTL)
	return may
}

// holders returns the largest holders of a consumer's resource type, among the claims that the user of the request
// may list.
func (h *Handler) holders(ctx context.Context, request *admissionv1.AdmissionRequest, consumer quotav1alpha1.ConsumerRef, resourceType string) []message.Holder {
	if h.Claims == nil || !h.Claims.HasSynced() {
		return nil
	}
	namespace := ""
	if !h.mayRead(ctx, request, "list", "resourceclaims", "") {
		namespace = request.Namespace
		if namespace == "" || !h.mayRead(ctx, request, "list", "resourceclaims", namespace) {
			return nil
		}
	}
	key := fmt.Sprintf("%q %s %s", fmt.Sprint(consumer), resourceType, namespace)
	// Denials at once share one look at all claims of the consumer.
	found, _, _ := h.looking.Do(key, func() (any, error) {
		known, ok := h.cached.Get(key)
		if !ok {
			known = h.largest(consumer, resourceType, namespace)
			h.cached.Set(key, known, holdersTTL)
		}
		return known, nil
	})
	return found.([]message.Holder)
}

// holder is an object that uses quota. A claim without an object stands for itself.
type holder struct {
	kind   schema.GroupKind
	name   types.NamespacedName
	amount ledger.Amount
}

// largest returns the objects with the largest use of a consumer's resource type, in one namespace or in all. An object
// that counts by one policy, and has a claim of record by another, is there once.
func (h *Handler) largest(consumer quotav1alpha1.ConsumerRef, resourceType, namespace string) []message.Holder {
	var all []holder
	for _, each := range slices.Concat(h.largestClaims(consumer, resourceType, namespace), h.largestObjects(consumer, resourceType, namespace)) {
		at := slices.IndexFunc(all, func(known holder) bool { return known.kind == each.kind && known.name == each.name })
		if at < 0 {
			all = append(all, each)
			continue
		}
		all[at].amount = all[at].amount.AddUpTo(each.amount)
	}
	slices.SortStableFunc(all, func(a, b holder) int { return cmp.Compare(b.amount, a.amount) })

	named := make([]message.Holder, 0, holdersMax)
	for _, each := range all[:min(len(all), holdersMax)] {
		named = append(named, message.Holder{Name: each.kind.Kind + " " + cache.NamespacedNameAsObjectName(each.name).String(), Amount: each.amount})
	}
	return named
}

// largestObjects returns the largest among the objects that count.
func (h *Handler) largestObjects(consumer quotav1alpha1.ConsumerRef, resourceType, namespace string) []holder {
	if h.Inventory == nil {
		return nil
	}
	of := inventory.Selection{Consumer: &consumer, ResourceType: resourceType, Namespace: namespace}
	var holders []holder
	for _, o := range h.Inventory.Holders(of, nil, holdersMax, nil).Holders {
		holders = append(holders, holder{kind: o.Kind.GroupKind(), name: o.NamespacedName, amount: ledger.Amount(o.Rank)})
	}
	return holders
}

// largestClaims returns the objects with the largest claims.
func (h *Handler) largestClaims(consumer quotav1alpha1.ConsumerRef, resourceType, namespace string) []holder {
	type use struct {
		claim  *claimcache.Claim
		amount int64
	}
	more := func(a, b use) int {
		return cmp.Or(cmp.Compare(b.amount, a.amount), cmp.Compare(a.claim.Namespace, b.claim.Namespace),
			cmp.Compare(a.claim.Object.Name, b.claim.Object.Name), cmp.Compare(a.claim.Name, b.claim.Name))
	}

	var top []use
	amountOf := claimcache.AmountOf(resourceType)
	for _, claim := range h.Claims.ForConsumer(consumer, func(c *claimcache.Claim) bool {
		return c.State == claimcache.Granted && (namespace == "" || c.Namespace == namespace)
	}) {
		next := use{claim, amountOf(claim)}
		if next.amount == 0 || len(top) == holdersMax && more(next, top[holdersMax-1]) > 0 {
			continue
		}
		top = append(top, next)
		slices.SortFunc(top, more)
		top = top[:min(len(top), holdersMax)]
	}

	holders := make([]holder, 0, len(top))
	for _, each := range top {
		holders = append(holders, holderOf(each.claim, ledger.Amount(each.amount)))
	}
	return holders
}

func holderOf(claim *claimcache.Claim, amount ledger.Amount) holder {
	if claim.Kind().Kind == "" {
		return holder{kind: quotav1alpha1.GroupVersion.WithKind("ResourceClaim").GroupKind(), name: claim.NamespacedName, amount: amount}
	}
	return holder{kind: claim.Kind(), name: claim.Object, amount: amount}
}
