package enforce

import (
	"cmp"
	"context"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/policy"
)

// create is one object to create, with the claims of all policies for it.
type create struct {
	evaluator.Object
	resource schema.GroupVersionResource
	claims   []*evaluatedClaim
	notices  notices
	// requester names the user of the create, see requesterOf.
	requester string
	// until is the end of waiting for the effect of other requests.
	until time.Time
	// isShared is set once another review of the same create made some of the reservations.
	isShared bool
}

// evaluatedClaim is the claim that a policy makes for an object, before its reservation.
type evaluatedClaim struct {
	*evaluator.Claim
	policy *catalog.Policy
	// actor is the user behind the claim's request.
	actor string
	// awaits is what ends the reservation.
	awaits *ledger.Awaited
}

// create answers the review of a create.
func (h *Handler) create(ctx context.Context, request *admissionv1.AdmissionRequest, forward forwardFunc) *admissionv1.AdmissionResponse {
	create, denial := h.evaluatePolicies(ctx, request)
	if denial != nil {
		return denial
	}
	if create == nil {
		return review.Allowed()
	}
	if len(create.claims) == 0 {
		return h.allowWithNotices(ctx, request, create.Object, create.notices)
	}

	if size := len(request.Object.Raw); size > h.MaxObjectBytes && isStoredAsJSON(create.Kind.Group) {
		return tooLarge(size, h.MaxObjectBytes)
	}
	if !review.IsDryRun(request) {
		if answer := forward(byConsumer(create.claims)[0][0].Consumer); answer != nil {
			return answer
		}
	}

	answer := h.decide(ctx, request, create)
	if !review.IsDryRun(request) {
		for _, claim := range create.claims {
			h.metrics.decided(claim.policy, answer)
		}
		announce(answer, request, create.Object, byConsumer(create.claims)[0][0].Consumer)
	}
	return answer
}

// decide answers the review of a create with claims.
func (h *Handler) decide(ctx context.Context, request *admissionv1.AdmissionRequest, c *create) *admissionv1.AdmissionResponse {
	unseen := h.admitted.unseen(objectName{c.Kind.GroupKind(), c.Name}) // first, because it may appear meanwhile
	if exists, err := h.isNameTaken(ctx, c); err != nil {
		return tryAgain(err)
	} else if exists {
		return alreadyExists(request, c.Name.Name)
	}
	if review.IsDryRun(request) {
		return h.check(ctx, request, c)
	}
	c.until = waitUntil(ctx)
	return h.admit(ctx, request, c, unseen)
}

// admit reserves quota for the object. unseen, if not nil, is the earlier admitted object of the same name. The watch
// had not shown it when the decision began. Somebody may have deleted it already, and Bursar expects its release only
// once the watch shows the object. So if the reservation fails, admit waits for its appearance and tries again.
func (h *Handler) admit(ctx context.Context, request *admissionv1.AdmissionRequest, c *create, unseen *admittedObject) *admissionv1.AdmissionResponse {
	response := h.reserveBesideOthers(ctx, request, c)
	if response.Allowed {
		return response
	}
	unseen = cmp.Or(unseen, h.admitted.unseen(objectName{c.Kind.GroupKind(), c.Name})) // or one admitted meanwhile
	if unseen == nil || !unseen.waitSeen(ctx, recreateTimeout) {
		return response
	}
	if exists, err := h.isNameTaken(ctx, c); err != nil {
		return tryAgain(err)
	} else if exists {
		return alreadyExists(request, c.Name.Name)
	}
	return h.reserveBesideOthers(ctx, request, c)
}

// reserveBesideOthers reserves quota for the object. If requests in flight hold it, and their objects may be about to
// appear, reserveBesideOthers waits for them: then it knows whether the quota is used up.
func (h *Handler) reserveBesideOthers(ctx context.Context, request *admissionv1.AdmissionRequest, c *create) *admissionv1.AdmissionResponse {
	response := h.reserve(ctx, request, c)
	if !isHeldAnswer(response) || isSoon(c.until) {
		return response
	}

	// Objects may have appeared between that decision and this look. So only a decision after the look counts.
	consumers := enforcedOf(byConsumer(c.claims))
	held := h.lookAt(consumers)
	for {
		response = h.reserve(ctx, request, c)
		if !isHeldAnswer(response) || !h.waitForOthers(ctx, consumers, &held, c.until) {
			return response
		}
	}
}

// evaluatePolicies evaluates all policies for the object. It returns nil if the object demands nothing and there is
// nothing to report.
func (h *Handler) evaluatePolicies(ctx context.Context, request *admissionv1.AdmissionRequest) (*create, *admissionv1.AdmissionResponse) {
	kind := schema.GroupVersionKind(request.Kind)
	policies := h.Catalog.Policies(kind)
	if len(policies) == 0 {
		return nil, nil
	}

	var content map[string]any
	if err := utiljson.Unmarshal(request.Object.Raw, &content); err != nil {
		return nil, review.Invalid("the object cannot be read: %v", err)
	}
	object := &unstructured.Unstructured{Object: content}
	c := &create{
		Object:    evaluator.ObjectOf(kind, object),
		resource:  schema.GroupVersionResource(request.Resource),
		requester: requesterOf(request.UserInfo, request.Namespace),
	}
	input := inputOf(request, c.Name.Namespace, content)
	if err := h.Evaluator.Complete(ctx, &input, c.Name.Namespace, policies); err != nil {
		return nil, tryAgain(err)
	}
	if c.UID == "" {
		return nil, review.Invalid("the object has no UID: Bursar decides on quota in the validating phase of a create")
	}

	for _, p := range policies {
		if denial := h.evaluatePolicy(ctx, request, p, c, input); denial != nil {
			return nil, denial
		}
	}

	if len(c.claims) == 0 && len(c.notices) == 0 {
		return nil, nil
	}
	return c, nil
}

// evaluatePolicy adds the claim of a policy to the create. If the policy is not applicable, it denies the request
// when the policy enforces, and adds a notice otherwise.
func (h *Handler) evaluatePolicy(ctx context.Context, request *admissionv1.AdmissionRequest, p *catalog.Policy, c *create, input policy.Input) *admissionv1.AdmissionResponse {
	evaluated, err := h.Evaluator.Evaluate(ctx, p, c.Object, input)
	if err == nil && evaluated != nil && p.Enforces() {
		err = h.Catalog.CheckNew(p.ResourceTypes...)
	}
	switch {
	case err != nil && p.Enforces():
		h.failed(request, p, c.Object, err, true)
		return denyNotApplicable(p.Name, err)
	case err != nil:
		c.notices.fail(p, err)
		return nil
	case evaluated != nil:
		awaits := &ledger.Awaited{Kind: inventory.Claims, ID: evaluated.Key} // of record
		if p.CountsObjects() {
			if awaits, err = h.awaitedBy(p, c.Object, "", input); err != nil {
				return tryAgain(err)
			}
		}
		c.claims = append(c.claims, &evaluatedClaim{evaluated, p, request.UserInfo.Username, awaits})
		h.succeeded(p)
	}
	return nil
}

// inputOf returns the input of policies for a request to create an object in a namespace. The namespace of the request
// differs for a Namespace object: there it is the object's own name.
func inputOf(request *admissionv1.AdmissionRequest, namespace string, content map[string]any) policy.Input {
	extra := make(map[string][]string, len(request.UserInfo.Extra))
	for key, values := range request.UserInfo.Extra {
		extra[key] = values
	}
	return policy.Input{
		Object: content,
		User: policy.UserInfo{
			Name: request.UserInfo.Username, UID: request.UserInfo.UID, Groups: request.UserInfo.Groups, Extra: extra,
		},
		RequestInfo: policy.RequestInfo{
			Verb: "create", APIGroup: request.Resource.Group, APIVersion: request.Resource.Version,
			Resource: request.Resource.Resource, Subresource: request.SubResource,
			Namespace: namespace, Name: request.Name,
		},
	}
}

// byConsumer groups claims by consumer and mode. Enforced groups come first. The order of the rest is fixed: every
// replica reserves for several consumers in the same order.
func byConsumer(claims []*evaluatedClaim) [][]*evaluatedClaim {
	slices.SortFunc(claims, func(a, b *evaluatedClaim) int {
		return cmp.Or(compareModes(a.policy, b.policy),
			cmp.Compare(naming.Ledger(a.Consumer), naming.Ledger(b.Consumer)), cmp.Compare(a.Policy, b.Policy))
	})
	var groups [][]*evaluatedClaim
	for i, claim := range claims {
		if i == 0 || claim.Consumer != claims[i-1].Consumer || claim.policy.Mode != claims[i-1].policy.Mode {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], claim)
	}
	return groups
}

// compareModes orders enforced policies first.
func compareModes(a, b *catalog.Policy) int {
	if a.Enforces() != b.Enforces() {
		if a.Enforces() {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.Mode, b.Mode)
}
