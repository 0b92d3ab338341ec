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

// Raise is a change by which a ResourceQuota gives more than before, or is there at all. Its Hard holds the
// resources that it gives more of, with the new amounts.
type Raise = quotav1alpha1.PendingResourceQuota

// Books are those of one allocation, at one version of it and of its ledger. They are not safe for concurrent use.
type Books struct {
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
	pending   []Raise
	// taken is what each project takes, pending raises included, and total the sum.
	taken map[string]corev1.ResourceList
	total corev1.ResourceList
}

// New returns the books of an allocation by its status and its ledger, which is nil where there is none. They keep
// both, which must not be changed any more. The error says that the selector is none.
func New(object *quotav1alpha1.ResourceQuotaAllocation, ledger *quotav1alpha1.AllocationLedger) (*Books, error) {
	selector, err := metav1.LabelSelectorAsSelector(&object.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("spec.selector of ResourceQuotaAllocation %s: %w", object.Name, err)
	}
	b := &Books{
		object: object, isComplete: ledger != nil, selector: selector, scopes: ScopesOf(&object.Spec.Allocation),
		capped: quota.ResourceNames(object.Spec.Allocation.Hard), observed: map[string]corev1.ResourceList{},
	}
	slices.Sort(b.capped)
	for _, project := range object.Status.UsedByProject {
		b.observed[project.Namespace] = project.Used
	}
	b.unlimited = object.Status.UnlimitedNamespaces
	b.limited = apimeta.FindStatusCondition(object.Status.Conditions, quotav1alpha1.ConditionLimited)
	if ledger != nil {
		b.pending = ledger.Spec.Pending
		// Whoever wrote the ledger did not know this version of the allocation.
		b.isRoomChanged = ledger.Spec.AllocationVersion != object.ResourceVersion
	}
	b.sum()
	return b, nil
}

// Selector selects the projects by the labels of their namespaces.
func (b *Books) Selector() labels.Selector { return b.selector }

// Scopes are those of the ResourceQuotas that count.
func (b *Books) Scopes() Scopes { return b.scopes }

// Object returns the allocation, with the status that the books were made from.
func (b *Books) Object() *quotav1alpha1.ResourceQuotaAllocation { return b.object }

// IsObserved tells whether what the books say of projects is about the spec that the allocation has now. If
// not, nothing can be decided before [Books.Observe].
func (b *Books) IsObserved() bool {
	return b.isComplete && b.object.Status.ObservedGeneration == b.object.Generation
}

// sum adds up from scratch what is taken.
func (b *Books) sum() {
	b.taken, b.total = maps.Clone(b.observed), zero(b.capped)
	for _, p := range b.pending {
		b.taken[p.Namespace] = quota.Max(b.taken[p.Namespace], b.ofCapped(p.Hard))
	}
	for _, project := range slices.Sorted(maps.Keys(b.taken)) {
		b.total = quota.Add(b.total, b.taken[project])
	}
}

func zero(names []corev1.ResourceName) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range names {
		list[name] = resource.Quantity{}
	}
	return list
}

// ofCapped leaves out what is not capped, and what is nothing.
func (b *Books) ofCapped(list corev1.ResourceList) corev1.ResourceList {
	return quota.RemoveZeros(quota.Mask(list, b.capped))
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
func (b *Books) Check(raise Raise) []Shortage {
	asked, held := b.ofCapped(raise.Hard), b.taken[raise.Namespace]
	more := quota.Subtract(quota.Max(held, asked), held)
	var shortages []Shortage
	for _, name := range b.capped {
		allocated, limit := b.total[name], b.object.Spec.Allocation.Hard[name]
		sum := allocated.DeepCopy()
		sum.Add(more[name])
		if isMore := more[name]; isMore.Sign() > 0 && sum.Cmp(limit) > 0 {
			shortages = append(shortages, Shortage{Resource: name, Requested: asked[name], Held: held[name], Allocated: allocated, Limit: limit})
		}
	}
	return shortages
}

// Admit books a raise whole, or returns what it falls short of. It also books one by which its project takes no
// more: what hides it, another ResourceQuota of the project, may be lowered before this one is seen. Nothing is
// booked of a raise that is of nothing capped; of any other the whole is, as the cap may come to name more. One
// whose ID is booked already takes the place of that.
func (b *Books) Admit(raise Raise) (shortages []Shortage, isBooked bool) {
	asked := b.ofCapped(raise.Hard)
	if len(asked) == 0 {
		return nil, false
	}
	if shortages := b.Check(raise); len(shortages) > 0 {
		return shortages, false
	}
	before := b.taken[raise.Namespace]
	after := quota.Max(before, asked)
	b.taken[raise.Namespace] = after
	b.total = quota.Add(b.total, quota.Subtract(after, before))
	b.isLedgerChanged, b.isRoomChanged = true, true
	others := slices.DeleteFunc(slices.Clone(b.pending), func(p Raise) bool { return p.ID == raise.ID })
	b.pending = append(others, raise)
	return nil, true
}

// Cancel forgets the raise of that ID. It reports whether it was booked.
func (b *Books) Cancel(id string) bool {
	i := slices.IndexFunc(b.pending, func(p Raise) bool { return p.ID == id })
	if i < 0 {
		return false
	}
	b.isLedgerChanged, b.isRoomChanged = true, true
	b.pending = slices.Concat(b.pending[:i], b.pending[i+1:])
	b.sum()
	return true
}

// Pending returns the raises that are booked and not observed, in the order in which they were admitted. It is
// not the caller's to change.
func (b *Books) Pending() []Raise { return b.pending }

// Holder is a project and how much it takes of one resource.
type Holder struct {
	Project string
	Amount  resource.Quantity
}

// Holders returns the projects that take something of a resource, those that take the most first.
func (b *Books) Holders(name corev1.ResourceName) []Holder {
	var holders []Holder
	for project, taken := range b.taken {
		if amount := taken[name]; !amount.IsZero() {
			holders = append(holders, Holder{project, amount})
		}
	}
	slices.SortFunc(holders, func(x, y Holder) int {
		return cmp.Or(y.Amount.Cmp(x.Amount), cmp.Compare(x.Project, y.Project))
	})
	return holders
}
