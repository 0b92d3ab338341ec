// Package quotausage answers QuotaUsages: which objects use quota now. It reads the inventory of its replica, and
// leaves out everything that the user may not see. It writes nothing, and nobody stores a QuotaUsage.
//
// Package operator serves it.
package quotausage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/sight"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// Dependencies are the dependencies of an answerer.
type Dependencies struct {
	Inventory *inventory.Inventory
	// Kinds knows the kinds that the inventory lacks.
	Kinds Kinds
	// Consumers has the namespaces of consumers.
	Consumers Consumers
	// Permissions limit the answer to the objects that the user may see.
	Permissions sight.Permissions
	// Ready is closed once the policies are in memory.
	Ready <-chan struct{}
}

// Kinds knows the kinds that an inventory lacks.
type Kinds interface {
	// Uncounted returns the kinds under policies whose objects are not in the inventory, although there may be some.
	Uncounted() []schema.GroupVersionKind
}

// Consumers has the namespaces of consumers.
type Consumers interface {
	// ConsumerNamespace returns the namespace with the quota objects of a consumer.
	ConsumerNamespace(consumer quotav1alpha1.ConsumerRef) string
}

// Answerer answers QuotaUsages. It is safe for concurrent use if its dependencies are.
type Answerer struct {
	Dependencies
	// turns bounds the usages in progress.
	turns *semaphore.Weighted
}

const (
	// answersAtOnce is the number of usages in progress at the same time: each looks at all objects of a kind, and creates
	// must not wait for it.
	answersAtOnce = 2
	// lookupsMax is how many namespaces an answer may ask about.
	lookupsMax = 50
)

// New returns an answerer with dependencies.
func New(deps Dependencies) *Answerer {
	return &Answerer{Dependencies: deps, turns: semaphore.NewWeighted(answersAtOnce)}
}

// question is one usage in progress.
type question struct {
	*Answerer
	sight *sight.Sight
	spec  *quotav1alpha1.QuotaUsageSpec
	// namespace is that of the QuotaUsage. Its user probably sees the objects there.
	namespace string
	// isCut means that the answer hides objects because it may ask about no more namespaces.
	isCut bool
}

func (a *Answerer) newQuestion(request *admissionv1.AdmissionRequest, spec *quotav1alpha1.QuotaUsageSpec) *question {
	return &question{Answerer: a, sight: sight.New(a.Permissions, request.UserInfo, lookupsMax), spec: spec, namespace: request.Namespace}
}

// answer returns the page after a position, or the first one. It returns [sight.ErrBlind] to users who may not ask.
func (q *question) answer(ctx context.Context, after *inventory.Position) (*quotav1alpha1.QuotaUsageStatus, error) {
	isVisible, seesFigures, err := q.visibility(ctx)
	if err != nil {
		return nil, err
	}

	page := q.Inventory.Holders(q.selection(), after, limitOf(q.spec), isVisible)
	status := &quotav1alpha1.QuotaUsageStatus{Remaining: int64(page.Remaining)}
	for i := range page.Holders {
		o := objectOf(&page.Holders[i])
		if q.spec.ConsumerRef == nil {
			o.ConsumerRef = &page.Holders[i].Consumer
		}
		status.Objects = append(status.Objects, o)
	}
	if last := len(page.Holders) - 1; page.Remaining > 0 {
		status.Continue = tokenFor(q.spec, page.Holders[last].Position)
	}
	if page.Hidden > 0 && seesFigures {
		status.Hidden = hiddenOf(&page)
	}
	for _, kind := range q.Kinds.Uncounted() {
		status.Uncounted = append(status.Uncounted, kind.GroupKind().String())
	}
	return status, nil
}

// selection returns the selected part of the inventory.
func (q *question) selection() inventory.Selection {
	s := inventory.Selection{Consumer: q.spec.ConsumerRef, ResourceType: q.spec.ResourceType, Namespace: q.spec.Namespace}
	if ref := q.spec.ResourceRef; ref != nil {
		s.Object = &inventory.ObjectName{
			GroupKind:      schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind},
			NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name},
		}
	}
	return s
}

// visibility returns which places the user sees, or nil for all, and whether the user may know the sums of the others.
// It returns [sight.ErrBlind] if the user may not ask.
func (q *question) visibility(ctx context.Context) (isVisible func(inventory.Place) bool, seesFigures bool, err error) {
	ledgerName, home := "", ""
	if q.spec.ConsumerRef != nil {
		ledgerName, home = naming.Ledger(*q.spec.ConsumerRef), q.Consumers.ConsumerNamespace(*q.spec.ConsumerRef)
	}
	if seesAll, err := q.sight.Ledger(ctx, ledgerName); err != nil || seesAll {
		return nil, seesAll, err
	}

	isAllowed := true
	switch ref := q.spec.ResourceRef; {
	case q.spec.Namespace != "":
		isAllowed, err = q.sight.Claims(ctx, q.spec.Namespace)
	case ref != nil && ref.Namespace != "":
		isAllowed, err = q.sight.Claims(ctx, ref.Namespace)
	case ref != nil: // its consumers decide
	default:
		seesFigures, err = q.sight.Figures(ctx, home)
		isAllowed = seesFigures
	}
	if err == nil && !isAllowed {
		err = sight.ErrBlind
	}
	if err != nil {
		return nil, false, err
	}
	visible, err := q.visiblePlaces(ctx)
	return func(p inventory.Place) bool { return visible[p] }, seesFigures, err
}

// visiblePlaces asks about the places of all selected holders, first about the namespace of the QuotaUsage.
func (q *question) visiblePlaces(ctx context.Context) (map[inventory.Place]bool, error) {
	places := q.Inventory.Places(q.selection())
	if own := slices.Index(places, inventory.Place{Namespace: q.namespace}); own > 0 {
		places[0], places[own] = places[own], places[0]
	}
	visible := map[inventory.Place]bool{}
	for _, place := range places {
		namespace := place.Namespace
		if namespace == "" {
			namespace = q.Consumers.ConsumerNamespace(place.Consumer)
		}
		sees, err := q.sight.Claims(ctx, namespace)
		if errors.Is(err, sight.ErrLookups) {
			q.isCut = true
			continue // it may know the answer for the next one
		}
		if err != nil {
			return nil, err
		}
		visible[place] = sees
	}
	return visible, nil
}

// warnings are for the user.
func (q *question) warnings() []string {
	if !q.isCut {
		return nil
	}
	return []string{fmt.Sprintf("the objects are in more than %d namespaces, and an answer asks about no more of them: those in the others count as hidden, so ask with spec.namespace for them", lookupsMax)}
}

func objectOf(h *inventory.Holder) quotav1alpha1.QuotaUsageObject {
	return quotav1alpha1.QuotaUsageObject{
		ResourceRef:       quotav1alpha1.UnversionedObjectReference{APIGroup: h.Kind.Group, Kind: h.Kind.Kind, Namespace: h.Namespace, Name: h.Name},
		CreationTimestamp: metav1.NewTime(h.Created),
		Policies:          h.Policies,
		Amounts:           amountsOf(h.Charges),
	}
}

func amountsOf(charges []ledger.Charge) []quotav1alpha1.UsedAmount {
	amounts := make([]quotav1alpha1.UsedAmount, 0, len(charges))
	for _, c := range charges {
		amounts = append(amounts, quotav1alpha1.UsedAmount{
			ResourceType: c.ResourceType, Dimensions: maps.Collect(c.Dimensions.All()), Amount: int64(c.Amount),
		})
	}
	return amounts
}

func hiddenOf(page *inventory.Page) *quotav1alpha1.HiddenUsage {
	hidden := &quotav1alpha1.HiddenUsage{Objects: int64(page.Hidden)}
	for _, resourceType := range slices.Sorted(maps.Keys(page.HiddenAmounts)) {
		amount := int64(page.HiddenAmounts[resourceType].Amount())
		hidden.Amounts = append(hidden.Amounts, quotav1alpha1.UsedAmount{ResourceType: resourceType, Amount: amount})
	}
	return hidden
}

func limitOf(spec *quotav1alpha1.QuotaUsageSpec) int {
	if spec.Limit == 0 {
		return quotav1alpha1.UsageLimitDefault
	}
	return int(spec.Limit)
}
