package ledger

// Awaited is the change of an object that a pending request may make. Leave the end of such a request to
// [Ledger.Observe].
type Awaited struct {
	// Kind is the kind of the object, and ID identifies it among the objects of this kind, like a UID.
	Kind, ID string
	// After is the version of the object under review. It is 0 if the request creates the object.
	After Version
	// Namespaces and Policies are the versions that the charges of the request rest on, as in [Basis]. Namespaces is 0 if
	// they depend on none.
	Namespaces, Policies Version
}

// Visibility is what an observer knows about a request and its object at the version of its observation.
type Visibility struct {
	// Version is the object's own version. It is 0 if there is no such object, for this or any other consumer.
	Version Version
	// IsDeleted is true if the observer has seen the deletion of the object. The request cannot make it again.
	IsDeleted bool
	// HasEnded is true if the request had ended by then, well or not. An effect that is not visible never comes.
	HasEnded bool
}

// isVisible reports whether the object is visible as of a version after the review.
func (a *Awaited) isVisible(v Visibility) bool { return v.Version > a.After }

// isDecided reports whether observed demand has the effect of a request, or the request can have none any more: rule 2.
// observed is the basis of observed demand, and v is from an observation whose objects are no later.
func (a *Awaited) isDecided(v Visibility, at Version, observed Basis) bool {
	isUpdate := a.After > 0
	switch {
	case a.isVisible(v):
		// The object has appeared. Or it has changed since the review, by this request or another one: the API server
		// accepts no change of the earlier version any more. But demand by earlier policies may be smaller than what the
		// request takes.
		return !a.IsEarly(v, observed)
	case v.IsDeleted, v.HasEnded:
		return true
	default:
		// An object under review existed. If it does not exist later, it was deleted.
		return isUpdate && v.Version == 0 && at >= a.After
	}
}

// IsEarly reports whether the object is visible while observed demand rests on earlier policies or namespaces than the
// request. Until a later observation, both count.
func (a *Awaited) IsEarly(v Visibility, observed Basis) bool {
	return a.isVisible(v) && !(observed.hasNamespaces(a.Namespaces) && observed.Policies >= a.Policies)
}

// isValid reports whether the names are within their bounds.
func (a *Awaited) isValid() bool { return validKind(a.Kind) && a.ID != "" && len(a.ID) <= KeyBytesMax }

// size bounds from above the stored bytes within a reservation.
func (a *Awaited) size() int {
	if a == nil {
		return 0
	}
	const awaitedBytes = 160 // besides texts, as in size.go
	return awaitedBytes + nestedLen(a.Kind) + nestedLen(a.ID)
}
