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
)

// QuotaChange is a change by which a ResourceQuota gives more than before, or is there at all. Its Hard holds the
// resources that it gives more of, with the new amounts.
type QuotaChange = quotav1alpha1.PendingResourceQuota

// State are those of one allocation, at one version of it and of its ledger. They are not safe for concurrent use.
type State struct {
	// object is never changed, but replaced by a copy that shares what is the same.
	object *quotav1alpha1.ResourceQuotaAllocation
	// isComplete tells whether everything is in the books that was admitted before.
	isComplete bool
	// The books say something else than the status, than the ledger, or than others may decide by.
	isStatusChanged, isLedgerChanged, isRoomChanged bool

	selector labels.Selector
	scopes   Scopes
	capped   []corev1.ResourceName
	// observed is what each project takes by the ResourceQuotas that it has.
	observed map[string]corev1.ResourceList
	// unlimited are the first projects in which nothing limits a capped resource, and limited is the condition with their
	// number.
	unlimited []quotav1alpha1.UnlimitedNamespace
	limited   *metav1.Condition
	pending   []QuotaChange
	// taken is what each project takes, pending raises included, and total the sum.
	taken map[string]corev1.ResourceList
	total corev1.ResourceList
}

// New returns the books of an allocation by its status and its ledger, which is nil where there is none. They keep
// both, which must not be changed any more. The error says that the selector is none.
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
		// Whoever wrote the ledger did not know this version of the allocation.
		s.isRoomChanged = ledger.Spec.AllocationVersion != object.ResourceVersion
	}
	s.sum()
	return s, nil
}

// Selector selects the projects by the labels of their namespaces.
func (s *State) Selector() labels.Selector { return s.selector }

// Scopes are those of the ResourceQuotas that count.
func (s *State) Scopes() Scopes { return s.scopes }

// Object returns the allocation, with the status that the books were made from.
func (s *State) Object() *quotav1alpha1.ResourceQuotaAllocation { return s.object }

// IsObserved tells whether what the books say of projects is about the spec that the allocation has now. If
// not, nothing can be decided before [State.Observe].
func (s *State) IsObserved() bool {
	return s.isComplete && s.object.Status.ObservedGeneration == s.object.Generation
}

// sum adds up from scratch what is taken.
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

// onlyCapped leaves out what is not capped, and what is nothing.
func (s *State) onlyCapped(list corev1.ResourceList) corev1.ResourceList {
	return quota.RemoveZeros(quota.Mask(list, s.capped))
}

// Shortage is a resource of which a raise asks more than there is.
type Shortage struct {
	Resource corev1.ResourceName
	// Requested is what the ResourceQuota is to give, and Held what its project takes without that.
	Requested, Held resource.Quantity
	// Allocated is what all projects take together, Held included, and Limit the cap.
	Allocated, Limit resource.Quantity
}

// Possible is the most that a ResourceQuota of the project may give.
func (s Shortage) Possible() string {
	possible, left := s.Held.DeepCopy(), s.Limit.DeepCopy()
	left.Sub(s.Allocated)
	if left.Sign() > 0 {
		possible.Add(left)
	}
	return possible.String()
}

// Check returns what a raise falls short of, ordered by resource, and nothing if it may be made. A resource of
// which the project takes no more by it is never short.
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

// Admit books a raise whole, or returns what it falls short of. It also books one by which its project takes no
// more: what hides it, another ResourceQuota of the project, may be lowered before this one is seen. Nothing is
// booked of a raise that is of nothing capped; of any other the whole is, as the cap may come to name more. One
// whose ID is booked already takes the place of that.
func (s *State) Admit(change QuotaChange) (shortages []Shortage, isBooked bool) {
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

// Cancel forgets the raise of that ID. It reports whether it was booked.
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

// Pending returns the raises that are booked and not observed, in the order in which they were admitted. It is
// not the caller's to change.
func (s *State) Pending() []QuotaChange { return s.pending }

// Holder is a project and how much it takes of one resource.
type Holder struct {
	Namespace string
	Amount    resource.Quantity
}

// Holders returns the projects that take something of a resource, those that take the most first.
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
