package inventory

import (
	"cmp"
	"slices"
	"time"

	"github.com/bursar/bursar/internal/ledger"
)

// put adds an object, or replaces it by another version of it. Of several objects with one ID, the oldest counts: the
// one that everybody sees as such, whatever came first.
func (c *contents) put(o *Object) {
	id := idOf(o.UID)
	known, isKnown := c.objects[id]
	if isKnown && (known.namespace != o.Namespace || known.name != o.Name) && len(c.twins[id]) == 0 {
		c.twins[id] = []Object{c.objectOf(known, o)}
	}
	if twins := c.twins[id]; len(twins) > 0 {
		twins = append(without(twins, o), *o)
		c.twins[id] = twins
		o = oldest(twins, o.Version)
	}
	c.replaceBy(o)
}

// replaceBy replaces the object that counts with an ID.
func (c *contents) replaceBy(o *Object) {
	c.remove(idOf(o.UID))
	c.add(o)
}

// takeFromTwins takes away an object. It returns the one that counts from then on, as of the version of the deletion,
// or nil if that was the last one of its ID.
func (c *contents) takeFromTwins(o *Object) *Object {
	id := idOf(o.UID)
	twins := c.twins[id]
	if len(twins) == 0 {
		return nil
	}
	if twins = without(twins, o); len(twins) == 1 {
		delete(c.twins, id)
	} else {
		c.twins[id] = twins
	}
	return oldest(twins, o.Version)
}

// objectOf returns an object as it was given, with the ID of another one.
func (c *contents) objectOf(known object, twin *Object) Object {
	o := Object{UID: twin.UID, Version: known.version, Created: time.Unix(known.created, 0)}
	o.Namespace, o.Name = known.namespace, known.name
	if known.demand != nil {
		o.Demands = known.demand.parts
	}
	return o
}

// without returns the objects with another name.
func without(twins []Object, o *Object) []Object {
	return slices.DeleteFunc(slices.Clone(twins), func(twin Object) bool { return twin.NamespacedName == o.NamespacedName })
}

// oldest returns the oldest of several objects, as of a version at which they exist.
func oldest(twins []Object, at ledger.Version) *Object {
	first := slices.MinFunc(twins, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Created.Unix(), b.Created.Unix()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	first.Version = max(first.Version, at)
	return &first
}
