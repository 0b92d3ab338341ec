package inventory

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

// Selection selects holders. An empty field selects all.
type Selection struct {
	Consumer     *quotav1alpha1.ConsumerRef
	ResourceType string
	Namespace    string
	Object       *ObjectName
}

// ObjectName names an object of a kind in any version.
type ObjectName struct {
	schema.GroupKind
	types.NamespacedName
}

// Holder is an object that demands something of a consumer, by all policies together. Several holders may share their
// policies and charges: do not modify them.
type Holder struct {
	Position
	Created  time.Time
	Policies []string
	// Charges are above 0, and of the selected resource type.
	Charges []ledger.Charge
}

// Position is the place of a holder among others. It changes only if its rank does, so a page that begins after a
// position neither skips nor repeats other holders, whatever came or went before it.
type Position struct {
	// Rank is the amount of the selected resource type, over all dimensions. If none is selected, it is the time of
	// creation in seconds. The highest comes first.
	Rank int64
	types.NamespacedName
	Kind     schema.GroupVersionKind
	Consumer quotav1alpha1.ConsumerRef
}

// Compare orders positions.
func (p *Position) Compare(other *Position) int {
	if p.Rank != other.Rank {
		return cmp.Compare(other.Rank, p.Rank)
	}
	return cmp.Or(
		cmp.Compare(p.Namespace, other.Namespace), cmp.Compare(p.Name, other.Name), cmp.Compare(p.Kind.Kind, other.Kind.Kind),
		cmp.Compare(p.Kind.Group, other.Kind.Group), naming.CompareConsumers(p.Consumer, other.Consumer), cmp.Compare(p.Kind.Version, other.Kind.Version),
	)
}

// Place is what decides who may see a holder: the namespace of its object or, if it has none, its consumer.
type Place struct {
	Namespace string
	Consumer  quotav1alpha1.ConsumerRef
}

// Place returns the place of a holder.
func (p *Position) Place() Place {
	if p.Namespace != "" {
		return Place{Namespace: p.Namespace}
	}
	return Place{Consumer: p.Consumer}
}

// Page is a part of the holders in a selection.
type Page struct {
	Holders []Holder
	// Remaining is the number of visible holders after these.
	Remaining int
	// Hidden is the number of invisible holders anywhere in the selection, and HiddenAmounts are theirs by resource type.
	Hidden        int
	HiddenAmounts map[string]ledger.Total
}

// Places returns the places of all holders in a selection, in order.
func (i *Inventory) Places(s Selection) []Place {
	found := map[Place]struct{}{}
	for _, kind := range i.objectKinds() {
		kind.eachHolder(s, func(h *Holder) { found[h.Place()] = struct{}{} })
	}
	places := make([]Place, 0, len(found))
	for place := range found {
		places = append(places, place)
	}
	slices.SortFunc(places, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), naming.CompareConsumers(a.Consumer, b.Consumer))
	})
	return places
}

// Holders returns at most limit of the visible holders in a selection: those after a position, or the first ones if
// that is nil. All holders are visible if isVisible is nil. It must return quickly.
func (i *Inventory) Holders(s Selection, after *Position, limit int, isVisible func(Place) bool) Page {
	page := Page{HiddenAmounts: map[string]ledger.Total{}}
	first := first{limit: max(0, limit)}
	for _, kind := range i.objectKinds() {
		kind.eachHolder(s, func(h *Holder) {
			switch {
			case isVisible != nil && !isVisible(h.Place()):
				page.hide(h)
			case after == nil || h.Compare(after) > 0:
				first.add(h)
			}
		})
	}
	page.Holders = first.sorted()
	page.Remaining = first.added - len(page.Holders)
	return page
}

// objectKinds returns the kinds of holders. Claims are no holders: they tell who created them and for which object.
func (i *Inventory) objectKinds() []*Kind {
	return slices.DeleteFunc(i.Kinds(), func(k *Kind) bool { return k.name == Claims })
}

func (p *Page) hide(h *Holder) {
	p.Hidden++
	for _, c := range h.Charges {
		p.HiddenAmounts[c.ResourceType] = p.HiddenAmounts[c.ResourceType].Plus(c.Amount)
	}
}

// first keeps the first of many holders, at most limit.
type first struct {
	limit int
	// kept has the first ones of all that were added, and some others. All that come after last are left out.
	kept  []Holder
	last  *Position
	added int
}

func (f *first) add(h *Holder) {
	f.added++
	if f.limit == 0 || f.last != nil && h.Compare(f.last) > 0 {
		return
	}
	f.kept = append(f.kept, *h)
	if len(f.kept) == 2*f.limit {
		f.kept = f.sorted()
		last := f.kept[f.limit-1].Position
		f.last = &last
	}
}

func (f *first) sorted() []Holder {
	slices.SortFunc(f.kept, func(a, b Holder) int { return a.Compare(&b.Position) })
	return f.kept[:min(len(f.kept), f.limit)]
}

// eachHolder calls f for each selected holder of a kind, in any order. Changes wait meanwhile. f must not keep the
// pointer.
func (k *Kind) eachHolder(s Selection, f func(*Holder)) {
	kind := KindNamed(k.name)
	if s.Object != nil && kind.GroupKind() != s.Object.GroupKind {
		return
	}
	k.mu.RLock()
	defer k.mu.RUnlock()

	shares := map[*demand][]Holder{}
	for _, d := range k.demands {
		if selected := s.sharesOf(d); len(selected) > 0 {
			shares[d] = selected
		}
	}
	if len(shares) == 0 {
		return
	}
	for _, o := range k.objects {
		if !s.selects(&o) {
			continue
		}
		for _, h := range shares[o.demand] {
			h.Kind, h.Namespace, h.Name, h.Created = kind, o.namespace, o.name, time.Unix(o.created, 0)
			if s.ResourceType == "" {
				h.Rank = o.created
			}
			f(&h)
		}
	}
}

func (s *Selection) selects(o *object) bool {
	if s.Object != nil && (o.namespace != s.Object.Namespace || o.name != s.Object.Name) {
		return false
	}
	return s.Namespace == "" || o.namespace == s.Namespace
}

// sharesOf returns the selected parts of a demand, one for each consumer, as holders without a name.
func (s *Selection) sharesOf(d *demand) []Holder {
	var shares []Holder
	for i := range d.parts { // in the order of consumers
		part := &d.parts[i]
		if s.Consumer != nil && part.Consumer != *s.Consumer {
			continue
		}
		charges := slices.DeleteFunc(slices.Clone(part.Charges), func(c ledger.Charge) bool {
			return c.Amount <= 0 || s.ResourceType != "" && c.ResourceType != s.ResourceType
		})
		if len(charges) == 0 {
			continue
		}

		last := len(shares) - 1
		if last < 0 || shares[last].Consumer != part.Consumer {
			shares = append(shares, Holder{Position: Position{Consumer: part.Consumer}})
			last++
		}
		shares[last].add(part.Policy, charges)
	}
	return shares
}

// add adds the charges of a policy.
func (h *Holder) add(policy string, charges []ledger.Charge) {
	h.Policies = append(h.Policies, policy)
	for _, c := range charges {
		h.Rank = int64(ledger.Amount(h.Rank).AddUpTo(c.Amount))
		at := slices.IndexFunc(h.Charges, func(other ledger.Charge) bool {
			return other.ResourceType == c.ResourceType && other.Dimensions == c.Dimensions
		})
		if at < 0 {
			h.Charges = append(h.Charges, c)
			continue
		}
		h.Charges[at].Amount = h.Charges[at].Amount.AddUpTo(c.Amount)
	}
}
