package catalog

import "k8s.io/apimachinery/pkg/runtime/schema"

// undecidable names an enforcing policy that may be effective in another replica and is not here, for creates and, if
// it follows updates, for updates.
type undecidable struct{ onCreate, onUpdate string }

// Undecidable returns the name of an enforcing policy for a kind that may be effective in another replica and is not
// here, or "". Without that policy this process must not admit an object of the kind: it would pass uncharged.
//
// This lasts for moments while a registration goes or the leader resumes a suspended policy. It lasts longer for a
// policy that this binary cannot compile and a later one can.
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
		if d.current != nil && c.isEffectiveLocked(d.current) || d.isKnownIneffective() {
			continue
		}
		triggers := []Trigger{d.trigger}
		if d.stored != nil {
			triggers = append(triggers, d.stored.trigger)
		}
		if d.current != nil {
			triggers = append(triggers, d.current.trigger())
		}
		for _, t := range triggers {
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

// isKnownIneffective reports whether a policy that is not effective here has no effect anywhere that anybody relies on.
// Either no generation of it was ever Ready, or the leader has rejected it because its resource types are unregistered.
// A replica knows the registrations behind the webhooks before it decides, but not the leader's permissions, so a
// suspended policy is never known to be ineffective.
func (d *declaration) isKnownIneffective() bool {
	return d.stored == nil || d.isRejected && d.current != nil && !d.isSuspended
}
