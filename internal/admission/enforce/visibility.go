package enforce

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
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

// largest returns the objects with the largest use of a consumer's resource type, in one namespace or in all. An object
// that counts by one policy, and has a claim of record by another, is there once.
func (h *Handler) largest(consumer quotav1alpha1.ConsumerRef, resourceType, namespace string) []message.Holder {
	var holders []message.Holder
	for _, each := range slices.Concat(h.largestClaims(consumer, resourceType, namespace), h.largestObjects(consumer, resourceType, namespace)) {
		at := slices.IndexFunc(holders, func(known message.Holder) bool { return known.Name == each.Name })
		if at < 0 {
			holders = append(holders, each)
			continue
		}
		holders[at].Amount = holders[at].Amount.AddUpTo(each.Amount)
	}
	slices.SortStableFunc(holders, func(a, b message.Holder) int { return cmp.Compare(b.Amount, a.Amount) })
	return holders[:min(len(holders), holdersMax)]
}

// largestObjects returns the largest among the objects that count.
func (h *Handler) largestObjects(consumer quotav1alpha1.ConsumerRef, resourceType, namespace string) []message.Holder {
	if h.Inventory == nil {
		return nil
	}
	of := inventory.Selection{Consumer: &consumer, ResourceType: resourceType, Namespace: namespace}
	var holders []message.Holder
	for _, o := range h.Inventory.Holders(of, nil, holdersMax, nil).Holders {
		name := o.Kind.Kind + " " + cache.NamespacedNameAsObjectName(o.NamespacedName).String()
		holders = append(holders, message.Holder{Name: name, Amount: ledger.Amount(o.Rank)})
	}
	return holders
}

// largestClaims returns the objects with the largest claims.
func (h *Handler) largestClaims(consumer quotav1alpha1.ConsumerRef, resourceType, namespace string) []message.Holder {
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

	holders := make([]message.Holder, 0, len(top))
	for _, each := range top {
		holders = append(holders, message.Holder{Name: holderName(each.claim), Amount: ledger.Amount(each.amount)})
	}
	return holders
}

// holderName names the object of a claim. A claim without an object stands for itself.
func holderName(claim *claimcache.Claim) string {
	if claim.Kind().Kind == "" {
		return "ResourceClaim " + claim.String()
	}
	return claim.Kind().Kind + " " + cache.NamespacedNameAsObjectName(claim.Object).String()
}
