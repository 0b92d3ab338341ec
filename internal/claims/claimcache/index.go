package claimcache

import (
	"slices"
)

// index adds a claim to the secondary indexes. The caller holds c.mu.
func (c *Cache) index(claim *Claim) {
	consumer := claim.Consumer()
	claims := c.byConsumer[consumer]
	if claims == nil {
		claims = map[*Claim]struct{}{}
		c.byConsumer[consumer] = claims
	}
	claims[claim] = struct{}{}
	c.policies[claim.Policy()]++
	if (!claim.Labelled || !claim.Finalizer) && !claim.Deleting {
		c.incomplete[claim] = struct{}{}
	}
	if claim.FromPolicy() {
		c.byObject[claim.ObjectUID] = append(c.byObject[claim.ObjectUID], claim)
		c.kinds[claim.Kind()]++
	}
}

// unindex removes a claim from the secondary indexes. The caller holds c.mu.
func (c *Cache) unindex(claim *Claim) {
	consumer := claim.Consumer()
	delete(c.byConsumer[consumer], claim)
	if len(c.byConsumer[consumer]) == 0 {
		delete(c.byConsumer, consumer)
	}
	if c.policies[claim.Policy()]--; c.policies[claim.Policy()] == 0 {
		delete(c.policies, claim.Policy())
	}
	delete(c.incomplete, claim)
	if !claim.FromPolicy() {
		return
	}
	rest := slices.DeleteFunc(c.byObject[claim.ObjectUID], func(other *Claim) bool { return other == claim })
	if len(rest) == 0 {
		delete(c.byObject, claim.ObjectUID)
	} else {
		c.byObject[claim.ObjectUID] = rest
	}
	if c.kinds[claim.Kind()]--; c.kinds[claim.Kind()] == 0 {
		delete(c.kinds, claim.Kind())
	}
}
