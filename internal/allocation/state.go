package allocation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	quota "k8s.io/apiserver/pkg/quota/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/quantity"
)

// QuotaChange is the creation of a ResourceQuota, or a change to give more. Its Hard has the new amounts of the growing
// resources.
type QuotaChange = quotav1alpha1.PendingResourceQuota

// State is the state of one allocation, at one version of the allocation and of its ledger. It is not safe for
// concurrent use.
type State struct {
	// Nothing modifies object. A change replaces it by a copy with the unchanged parts shared.
	object *quotav1alpha1.ResourceQuotaAllocation
	// isComplete reports whether the state has every change admitted before.
	isComplete bool
	// These report whether the status, the ledger, or the basis of decisions of other processes differs from this
	// state.
	isStatusChanged, isLedgerChanged, isRoomChanged bool

	selector labels.Selector
	scopes   Scopes
	capped   []corev1.ResourceName
	// observed are the amounts of each member namespace according to its ResourceQuotas.
	observed map[string]corev1.ResourceList
	// unlimited are the first namespaces without a limit on a capped resource. limited is the condition with their
	// number.
	unlimited []quotav1alpha1.UnlimitedNamespace
	limited   *metav1.Condition
	pending   []QuotaChange
	// taken are the amounts of each member namespace including pending changes, and total is their sum.
	taken map[string]corev1.ResourceList
	total corev1.ResourceList
}

// New returns the state of an allocation with its status and its ledger. The ledger is nil if there is none. The state
// keeps both: do not modify them. New fails if the selector is invalid.
func New(object *quotav1alpha1.ResourceQuotaAllocation, ledger *quotav1alpha1.AllocationLedger) (*State, error) {
	selector, err := metav1.LabelSelectorAsSelector(&object.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.selector of ResourceQuotaAllocation %s: %w", object.Name, err)
	}
	s := &State{
		object: object, isComplete: ledger != nil, selector: selector, scopes: ScopesOf(&object.Spec.Allocation),
		capped: quota.ResourceNames(object.Spec.Allocation.Hard), observed: map[string]corev1.ResourceList{},
	}
	slices.Sort(s.capped)
	for _, member := range object.Status.UsedByProject {
		s.observed[member.Namespace] = member.Used
	}
	s.unlimited = object.Status.UnlimitedNamespaces
	s.limited = apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionLimited)
	if ledger != nil {
		s.pending = ledger.Spec.Pending
		// The writer of the ledger did not know this version of the allocation.
		s.isRoomChanged = ledger.Spec.AllocationVersion != object.ResourceVersion
	}
	s.sum()
	return s, nil
}

// Selector selects the member namespaces by their labels.
func (s *State) Selector() labels.Selector { return s.selector }

// Scopes are those of the ResourceQuotas under the cap.
func (s *State) Scopes() Scopes { return s.scopes }

// Object returns the allocation with the status behind the state.
func (s *State) Object() *quotav1alpha1.ResourceQuotaAllocation { return s.object }

// IsObserved reports whether the observation is of the present spec. If not, call [State.Observe] before any decision.
func (s *State) IsObserved() bool {
	return s.isComplete && s.object.Status.ObservedGeneration == s.object.Generation
}

// sum adds up taken and total again.
func (s *State) sum() {
	s.taken, s.total = maps.Clone(s.observed), zero(s.capped)
	for _, p := range s.pending {
		s.taken[p.Namespace] = quota.Max(s.taken[p.Namespace], s.onlyCapped(p.Hard))
	}
	for _, namespace := range slices.Sorted(maps.Keys(s.taken)) {
		s.total = quota.Add(s.total, s.taken[namespace])
	}
}

func zero(names []corev1.ResourceName) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range names {
		list[name] = resource.Quantity{}
	}
	return list
}

// onlyCapped returns the capped resources without zeros.
func (s *State) onlyCapped(list corev1.ResourceList) corev1.ResourceList {
	return quota.RemoveZeros(quota.Mask(list, s.capped))
}

// Shortage is a resource with less left than a change asks for.
type Shortage struct {
	Resource corev1.ResourceName
	// Requested is the new amount of the ResourceQuota, and Held the amount of its namespace without it.
	Requested, Held resource.Quantity
	// Allocated is the sum over all namespaces, Held included, and Limit is the cap.
	Allocated, Limit resource.Quantity
}

// Possible is the largest possible amount in a ResourceQuota of the namespace.
func (s Shortage) Possible() string {
	possible, left := s.Held.DeepCopy(), s.Limit.DeepCopy()
	left.Sub(s.Allocated)
	if left.Sign() > 0 {
		possible.Add(left)
	}
	return quantity.Text(possible)
}

// Check returns the shortages of a change, ordered by resource, or nothing if there is room for it. A resource is never
// short if the namespace takes no more of it after the change.
func (s *State) Check(change QuotaChange) []Shortage {
	requested, held := s.onlyCapped(change.Hard), s.taken[change.Namespace]
	more := quota.Subtract(quota.Max(held, requested), held)
	var shortages []Shortage
	for _, name := range s.capped {
		allocated, limit := s.total[name], s.object.Spec.Allocation.Hard[name]
		sum := allocated.DeepCopy()
		sum.Add(more[name])
		if isMore := more[name]; isMore.Sign() > 0 && sum.Cmp(limit) > 0 {
			shortages = append(shortages, Shortage{Resource: name, Requested: requested[name], Held: held[name], Allocated: allocated, Limit: limit})
		}
	}
	return shortages
}

// Admit records a change as pending, or returns its shortages. It also records a change without an increase for the
// namespace: a larger ResourceQuota of the namespace may shrink before an observation has this change. It does not
// record a change of resources without a cap. Of any other change it records all resources, because the cap may come to
// name more of them. A change replaces a pending one with the same ID.
func (s *State) Admit(change QuotaChange) (shortages []Shortage, isPending bool) {
	requested := s.onlyCapped(change.Hard)
	if len(requested) == 0 {
		return nil, false
	}
	if shortages := s.Check(change); len(shortages) > 0 {
		return shortages, false
	}
	before := s.taken[change.Namespace]
	after := quota.Max(before, requested)
	s.taken[change.Namespace] = after
	s.total = quota.Add(s.total, quota.Subtract(after, before))
	s.isLedgerChanged, s.isRoomChanged = true, true
	others := slices.DeleteFunc(slices.Clone(s.pending), func(p QuotaChange) bool { return p.ID == change.ID })
	s.pending = append(others, change)
	return nil, true
}

// Cancel drops the pending change with the ID. It reports whether there was one.
func (s *State) Cancel(id string) bool {
	i := slices.IndexFunc(s.pending, func(p QuotaChange) bool { return p.ID == id })
	if i < 0 {
		return false
	}
	s.isLedgerChanged, s.isRoomChanged = true, true
	s.pending = slices.Concat(s.pending[:i], s.pending[i+1:])
	s.sum()
	return true
}

// Pending returns the pending changes in the order of their admission. Do not modify them.
func (s *State) Pending() []QuotaChange { return s.pending }

// Holder is a member namespace with its amount of one resource.
type Holder struct {
	Namespace string
	Amount    resource.Quantity
}

// Holders returns the namespaces with some of a resource, the largest amount first.
func (s *State) Holders(name corev1.ResourceName) []Holder {
	var holders []Holder
	for namespace, taken := range s.taken {
		if amount := taken[name]; !amount.IsZero() {
			holders = append(holders, Holder{namespace, amount})
		}
	}
	slices.SortFunc(holders, func(x, y Holder) int {
		return cmp.Or(y.Amount.Cmp(x.Amount), cmp.Compare(x.Namespace, y.Namespace))
	})
	return holders
}
