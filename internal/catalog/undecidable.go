package catalog

import "k8s.io/apimachinery/pkg/runtime/schema"

// undecidable names an enforcing policy that may be effective in another replica and is not here, for creates and, if
// it follows updates, for updates.
type undecidable struct{ onCreate, onUpdate string }

// Undecidable returns the name of an enforcing policy for a kind that may be effective in another replica and is not
// here, or "". Without that policy this process must not admit an object of the kind: it would pass uncharged.
//
// This lasts for moments while a registration goes, or while the leader resumes a suspended policy or accepts its new
// kind. It lasts longer for a policy that this binary cannot compile and a later one can.
func (c *Catalog) Undecidable(kind schema.GroupVersionKind, isUpdate bool) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if isUpdate {
		return c.undecidable[kind].onUpdate
	}
	return c.undecidable[kind].onCreate
}

func (c *Catalog) indexUndecidableLocked() {
	c.undecidable = map[schema.GroupVersionKind]undecidable{}
	for name, d := range c.declarations {
		for _, t := range c.undecidableTriggersLocked(d) {
			if !t.Enforced {
				continue
			}
			u := c.undecidable[t.GroupVersionKind]
			if u.onCreate = name; t.Updates {
				u.onUpdate = name
			}
			c.undecidable[t.GroupVersionKind] = u
		}
	}
}

// undecidableTriggersLocked returns what a policy may decide in another replica and does not decide here.
func (c *Catalog) undecidableTriggersLocked(d *declaration) []Trigger {
	if d.current != nil && c.isEffectiveLocked(d.current) {
		if d.changesKind() && !d.isRejected {
			return []Trigger{d.trigger} // the leader may have accepted the kind just now
		}
		return nil
	}
	if d.isKnownIneffective() {
		return nil
	}

	triggers := []Trigger{d.trigger}
	if d.stored != nil {
		triggers = append(triggers, d.stored.trigger)
	}
	if d.current != nil {
		triggers = append(triggers, d.current.trigger())
	}
	return triggers
}

// isKnownIneffective reports whether a policy that is not effective here has no effect anywhere that anybody relies on.
// Either no generation of it was ever Ready, or the leader has rejected the current one because its resource types are
// unregistered. A rejection of a later generation says nothing about the current one. A replica knows the registrations
// behind the webhooks before it decides, but not the leader's permissions, so a suspended policy is never known to be
// ineffective.
func (d *declaration) isKnownIneffective() bool {
	isCurrentRejected := d.isRejected && d.current != nil && d.current.Generation == d.generation
	return d.stored == nil || isCurrentRejected && !d.isSuspended
}
