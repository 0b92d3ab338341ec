package tenant

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/usage"
	"github.com/bursar/bursar/internal/usage/holders"
)

const (
	// claimsMax bounds the claims of a page, in requests for claimsAtOnce.
	claimsMax, claimsAtOnce = 3000, 1000
)

// claims are those of a scope.
type claims struct {
	all []quotav1alpha1.ResourceClaim
	// isCut reports whether there are more.
	isCut bool
	// isWhole is false for the claims of only one namespace: a consumer may have others.
	isWhole bool
}

// readClaims reads the claims of a scope: those of a consumer in all namespaces, if the person may see these, and
// otherwise those in the namespace. It leaves out views unless withViews is set. It may return an error about the
// person's rights.
func (s *scope) readClaims(ctx context.Context, api client.Reader, withViews bool) (*claims, error) {
	consumer, options, err := s.consumerClaims()
	if err != nil {
		return nil, err
	}
	if !withViews {
		options = append(options, client.MatchingLabelsSelector{Selector: claimcache.OfRecord()})
	}
	found := &claims{isWhole: s.Consumer != "" || s.Namespace == ""}
	namespace := s.Namespace
	if found.isWhole {
		namespace = ""
	}
	for next, read := "", 0; ; {
		var page quotav1alpha1.ResourceClaimList // new for each page: decoding keeps old values of absent fields
		of := append([]client.ListOption{client.InNamespace(namespace), client.Limit(claimsAtOnce), client.Continue(next)}, options...)
		err = api.List(ctx, &page, of...)
		if apierrors.IsForbidden(err) && namespace != s.Namespace {
			namespace, found.isWhole = s.Namespace, false
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the claims: %w", err)
		}
		for i := range page.Items {
			if claim := &page.Items[i]; (s.Consumer == "" || consumer.Matches(claim.Spec.ConsumerRef)) && s.hasType(claim) {
				found.all = append(found.all, *claim)
			}
		}
		read += len(page.Items)
		if next = page.Continue; next == "" {
			return found, nil
		}
		if read >= claimsMax {
			found.isCut = true
			return found, nil
		}
	}
}

// consumerClaims returns the consumer of the scope, if any, and how to list its claims.
func (s *scope) consumerClaims() (consumer consumername.Name, options []client.ListOption, err error) {
	if s.Consumer == "" {
		return consumer, nil, nil
	}
	if consumer, err = consumername.Parse(s.Consumer); err != nil {
		return consumer, nil, err
	}
	given, _ := consumer.Full()
	return consumer, []client.ListOption{client.MatchingFields{"spec.consumerRef.name": given.Name}}, nil
}

// hasType reports whether a claim is for the resource type of the scope.
func (s *scope) hasType(claim *quotav1alpha1.ResourceClaim) bool {
	return s.Type == "" || slices.ContainsFunc(claim.Spec.Requests, func(request quotav1alpha1.ResourceRequest) bool {
		return s.isType(request.ResourceType) && request.Amount > 0
	})
}

// isType reports whether a resource type is that of the scope, or any type is.
func (s *scope) isType(resourceType string) bool {
	return s.Type == "" || s.Type == resourceType || s.Type == resourceType[strings.LastIndex(resourceType, "/")+1:]
}

// states of claims, for people.
const (
	stateGranted   = "Granted"
	stateWaiting   = "Waiting"
	stateUndecided = "Not decided yet"
	stateInvalid   = "Invalid"
)

// stateOf returns the state of a claim, and the message of its condition.
func stateOf(claim *quotav1alpha1.ResourceClaim) (state, message string) {
	granted := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	switch {
	case granted == nil || granted.Reason == quotav1alpha1.ReasonPendingEvaluation:
		return stateUndecided, ""
	case granted.Status == metav1.ConditionTrue:
		resize := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionResizePending)
		if resize != nil && resize.Status == metav1.ConditionTrue {
			return stateWaiting, resize.Message
		}
		return stateGranted, ""
	case granted.Reason == quotav1alpha1.ReasonQuotaExceeded:
		return stateWaiting, granted.Message
	default:
		return stateInvalid, granted.Message
	}
}

// amount is the granted or requested amount of a resource type in a claim.
type amount struct {
	Title, ResourceType, Text string
	// URL shows the holders of the same resource type.
	URL string
}

// row is a holder on a page: an object that counts, or a claim.
type row struct {
	// Kind and Name are those of the object, with Namespace unless it is the namespace of the page.
	Kind, Name, Namespace string
	// Claim is the claim, as namespace/name, or empty without one.
	Claim                            string
	Consumer, Reference, ConsumerURL string
	Amounts                          []amount
	State, Message                   string
	Created                          time.Time
}

// IsGranted reports whether the holder has all it asks for.
func (r *row) IsGranted() bool { return r.State == stateGranted }

// quotas reads the quota of a scope, for the display of amounts. It returns none if the person may not see it.
func (s *scope) quotas(r *web.Request) (*overview.Overview, error) {
	found, err := overview.Read(r.Context(), r.API(), overview.Query{Namespace: s.Namespace, Consumer: s.Consumer, Max: itemsMax})
	if usage.IsOutOfReach(err) {
		return &overview.Overview{}, nil
	}
	return found, err
}

// rowOf returns a holder for a page of the scope.
func (s *scope) rowOf(h *holders.Holder, quotas *overview.Overview) row {
	ref := h.Subject()
	r := row{
		Kind: ref.Kind, Name: ref.Name, Created: h.Created, State: stateGranted,
		Consumer: h.Consumer.Kind + "/" + h.Consumer.Name, Reference: overview.ReferenceTo(h.Consumer),
	}
	namespace := ref.Namespace
	if h.Claim != nil {
		r.Claim = h.Claim.Namespace + "/" + h.Claim.Name
		namespace = cmp.Or(namespace, h.Claim.Namespace)
	}
	if namespace != s.Namespace {
		r.Namespace = namespace
	}
	r.ConsumerURL = web.Path(s.Path, "namespace", s.Namespace, "consumer", r.Reference, "type", s.Type)
	if !h.Counts {
		r.State, r.Message = stateOf(h.Claim)
	}
	for _, request := range h.Requests {
		a := amount{
			Title: quotas.Describe(request.ResourceType).Title, ResourceType: request.ResourceType,
			Text: quotas.Unit(request.ResourceType).Amount(request.Amount),
			URL:  web.Path(s.Path, "namespace", s.Namespace, "consumer", s.Consumer, "type", request.ResourceType),
		}
		r.Amounts = append(r.Amounts, a)
	}
	return r
}
