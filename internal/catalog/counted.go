package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Counted are the policies by which the existing objects of a kind count, as of a version of the policies.
//
// Every replica observes the demand of the objects, and compares it with that of other replicas by its version. So the
// demand must be a function of the policy objects alone, the same in every replica at the same version. Hence the
// registrations have no influence on it, and neither have suspensions: a suspended policy counts on.
type Counted struct {
	// Policies are the current policies of the kind that count objects, ordered by name, effective or not.
	Policies []*Policy
	// Version is the version of the policies, see [Catalog.PoliciesVersion].
	Version uint64
	// IsSettled is true if the status of each policy for the kind confirms its current generation. Before, another
	// replica may decide by a different one at the same version, because it knows other registrations. Then nothing is
	// observed.
	IsSettled bool
}

// Counted returns the policies by which the existing objects of a kind count.
func (c *Catalog) Counted(kind schema.GroupVersionKind) Counted {
	c.mu.RLock()
	defer c.mu.RUnlock()
	counted := Counted{Version: c.policyObjects.version, IsSettled: true}
	for _, p := range c.byKind[kind] {
		if p.CountsObjects() {
			counted.Policies = append(counted.Policies, p)
		}
	}
	for _, d := range c.declarations {
		if d.concerns(func(trigger schema.GroupVersionKind) bool { return trigger == kind }) && !d.isSettled() {
			counted.IsSettled = false
		}
	}
	return counted
}

// CurrentPolicies returns the current policies for a kind in any version that count objects, ordered by name, effective
// or not.
func (c *Catalog) CurrentPolicies(kind schema.GroupKind) []*Policy {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(c.byGroupKind[kind]), func(p *Policy) bool { return !p.CountsObjects() })
}

// IsSettled reports whether the status of each policy for a kind in any version confirms its current generation, see
// [Counted].
func (c *Catalog) IsSettled(kind schema.GroupKind) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, d := range c.declarations {
		if d.concerns(func(trigger schema.GroupVersionKind) bool { return trigger.GroupKind() == kind }) && !d.isSettled() {
			return false
		}
	}
	return true
}

// CountedKinds returns the kinds of all current policies that count objects, effective or not, in a fixed order.
func (c *Catalog) CountedKinds() []schema.GroupVersionKind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	kinds := map[schema.GroupVersionKind]bool{}
	for _, d := range c.declarations {
		if d.current != nil && d.current.CountsObjects() {
			kinds[d.current.Trigger] = true
		}
	}
	return slices.SortedFunc(maps.Keys(kinds), compareKinds)
}

// concerns reports whether isIt accepts the kind of some generation of a policy that may decide in a replica.
func (d *declaration) concerns(isIt func(schema.GroupVersionKind) bool) bool {
	return isIt(d.trigger.GroupVersionKind) || d.current != nil && isIt(d.current.Trigger) || d.stored != nil && isIt(d.stored.trigger.GroupVersionKind)
}

// isSettled reports whether every replica with this object has the same current generation.
func (d *declaration) isSettled() bool {
	if d.current == nil {
		// With an effective generation in the status, another replica can compile what this one cannot.
		return d.stored == nil && (d.isRejected || d.latest == nil)
	}
	isConfirmed := d.stored != nil && d.stored.generation == d.current.Generation
	return isConfirmed && (d.current.Generation == d.generation || d.isRejected)
}

// PoliciesVersion returns the latest version at which the catalog certainly had all ClaimCreationPolicies, also
// disabled ones: see [Catalog.ConfirmPolicies].
func (c *Catalog) PoliciesVersion() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.policyObjects.version
}

// PolicyVersion returns a resourceVersion from which on the objects of a kind count by the current generation of a
// policy, or 0 if the catalog does not know any. A request that this generation reviewed names this version.
//
// It is the first version with this generation, and with this effective generation in the status, that the catalog was
// given. So other writes of the status, which happen often, leave it as it is. A process that starts later is given a
// later version, and then requests wait a little longer than necessary for an observation that covers them.
func (c *Catalog) PolicyVersion(name string) uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.policyObjects.byName[name].countsSince
}

// ConfirmPolicies raises the version of the policies to that of a list from the API server, if the list has exactly
// the objects that the catalog was given. Otherwise it changes nothing, and returns false. Only a list proves that a
// version is complete: a watch that lists again delivers objects in any order, and a removal comes without a version.
func (c *Catalog) ConfirmPolicies(live []quotav1alpha1.ClaimCreationPolicy, version uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(live) != len(c.policyObjects.byName) {
		return false
	}
	for i := range live {
		if known, isKnown := c.policyObjects.byName[live[i].Name]; !isKnown || known.objectVersion != objectVersionOf(&live[i]) {
			return false
		}
	}
	c.policyObjects.version = max(c.policyObjects.version, version)
	return true
}

// policyObjects are the policy objects that the catalog was given, also disabled ones and those under deletion.
type policyObjects struct {
	byName map[string]knownObject
	// version is the latest one at which these were all objects.
	version uint64
}

// knownObject is what the catalog keeps of a policy object.
type knownObject struct {
	objectVersion
	generations generations
	// countsSince is the first version with these generations that the catalog was given.
	countsSince uint64
}

// objectVersion identifies an object and its content.
type objectVersion struct {
	uid             types.UID
	resourceVersion string
}

func objectVersionOf(object *quotav1alpha1.ClaimCreationPolicy) objectVersion {
	return objectVersion{object.UID, object.ResourceVersion}
}

// generations determine by which generation of a policy objects count once the kind is settled, see
// [Counted.IsSettled]: the declared one and, if that is rejected, the effective one. Each of them only rises.
type generations struct{ declared, effective int64 }

func generationsOf(object *quotav1alpha1.ClaimCreationPolicy) generations {
	g := generations{declared: object.Generation}
	if effective := object.Status.Effective; effective != nil {
		g.effective = effective.Generation
	}
	return g
}

func (p *policyObjects) set(object *quotav1alpha1.ClaimCreationPolicy) {
	now := knownObject{objectVersion: objectVersionOf(object), generations: generationsOf(object)}
	if before := p.byName[object.Name]; before.uid == now.uid && before.generations == now.generations {
		now.countsSince = before.countsSince
	}
	if now.countsSince == 0 {
		now.countsSince, _ = strconv.ParseUint(object.ResourceVersion, 10, 63) // 0 without a number
	}
	p.byName[object.Name] = now
}

func (p *policyObjects) remove(name string) { delete(p.byName, name) }

func compareKinds(a, b schema.GroupVersionKind) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
}
