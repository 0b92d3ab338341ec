package view

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
)

// wanted are the policies for a kind whose objects have views.
type wanted struct {
	// policies are those whose objects have been listed, by label value, and unlisted the others.
	policies map[string]listedPolicy
	unlisted map[string]bool
	// isSettled is false while another replica may know later policies. Then no view goes because of its policy.
	isSettled bool
}

// listedPolicy is a policy with the inventory of its kind.
type listedPolicy struct {
	*catalog.Policy
	kind *inventory.Kind
}

// wantedFor returns the policies for a kind whose objects have views.
func (c *Controller) wantedFor(kind schema.GroupKind) wanted {
	w := wanted{policies: map[string]listedPolicy{}, unlisted: map[string]bool{}, isSettled: c.Catalog.IsSettled(kind)}
	for _, p := range c.Catalog.CurrentPolicies(kind) {
		if !p.HasViews {
			continue
		}

		label := claims.LabelValue(p.Name)
		if counted := c.Inventory.Kind(inventory.NameOf(p.Trigger)); counted != nil && isListed(counted) {
			w.policies[label] = listedPolicy{p, counted}
		} else {
			w.unlisted[label] = true
		}
	}
	return w
}

func isListed(kind *inventory.Kind) bool {
	_, is := kind.Basis()
	return is
}

// demandOf returns what an object demands by a policy, or nil.
func (p listedPolicy) demandOf(uid types.UID) *inventory.Demand {
	for _, d := range p.kind.DemandsOf(uid) {
		if d.Policy == p.Name {
			return &d
		}
	}
	return nil
}

// shows reports whether a view shows a demand. It shows none while it is being deleted.
func shows(view *claimcache.Claim, demand *inventory.Demand) bool {
	if view.Deleting || view.Consumer() != demand.Consumer || view.State != claimcache.Granted {
		return false
	}
	charges, err := claims.Charges(view.Requests())
	return err == nil && evaluator.SameCharges(charges, demand.Charges)
}

// difference is what has to happen to the views of one object.
type difference struct {
	// missing are the policies without a view of their present demand.
	missing []listedPolicy
	// extra are the views that show no present demand.
	extra []*claimcache.Claim
}

func (d difference) isNone() bool { return len(d.missing)+len(d.extra) == 0 }

// differenceOf compares the views of an object with what it demands.
func (c *Controller) differenceOf(w wanted, uid types.UID) (d difference) {
	views := c.Views.ForObject(uid)
	slices.SortFunc(views, func(a, b *claimcache.Claim) int { // the oldest stays
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.UID, b.UID))
	})

	isShown := map[string]bool{}
	for _, view := range views {
		label := view.Policy()
		p, isWanted := w.policies[label]
		if !isWanted {
			if w.isSettled && !w.unlisted[label] {
				d.extra = append(d.extra, view)
			}
			continue
		}
		if demand := p.demandOf(uid); demand != nil && !isShown[label] && shows(view, demand) {
			isShown[label] = true
			continue
		}
		d.extra = append(d.extra, view)
	}
	d.extra = slices.DeleteFunc(d.extra, func(view *claimcache.Claim) bool { return view.Deleting })

	for label, p := range w.policies {
		if !isShown[label] && p.demandOf(uid) != nil {
			d.missing = append(d.missing, p)
		}
	}
	return d
}

// compareKind queues all objects of a kind whose views differ from what they demand, the oldest first.
func (c *Controller) compareKind(_ context.Context, kind schema.GroupKind) error {
	w := c.wantedFor(kind)
	type found struct {
		uid     types.UID
		version ledger.Version
	}
	var differing []found
	seen := map[types.UID]bool{}
	compare := func(uid types.UID, version ledger.Version) {
		if !seen[uid] && !c.differenceOf(w, uid).isNone() {
			differing = append(differing, found{uid, version})
			seen[uid] = true
		}
	}
	compared := map[*inventory.Kind]bool{}
	for _, p := range w.policies {
		if !compared[p.kind] {
			compared[p.kind] = true
			for uid, version := range p.kind.Demanding() {
				compare(uid, version)
			}
		}
	}
	for _, view := range c.Views.Select(func(view *claimcache.Claim) bool { return view.Kind() == kind }) {
		compare(view.ObjectUID, 0)
	}

	slices.SortFunc(differing, func(a, b found) int { return cmp.Compare(a.version, b.version) })
	for _, o := range differing {
		c.objects.Add(object{kind, o.uid})
	}
	return nil
}
