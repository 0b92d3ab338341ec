package ledger

import (
	"fmt"
	"strconv"
)

// Version is a place in the changes of one kind: a resourceVersion of Kubernetes, as a number. Versions of different
// kinds do not compare.
type Version uint64

// ParseVersion returns a resourceVersion as a number. Kubernetes promises since version 1.35 that it is one, and
// ledgers store it in 63 bits.
func ParseVersion(resourceVersion string) (Version, error) {
	version, err := strconv.ParseUint(resourceVersion, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion %q is no number, so versions do not compare", resourceVersion)
	}
	return Version(version), nil
}

// Basis is what an observation rests on: all changes up to these versions, and none later.
type Basis struct {
	// Objects is the version of the observed kind.
	Objects Version
	// Policies is the version of the policies, and Namespaces that of the namespaces. Namespaces is 0 if the policies read
	// none.
	Namespaces, Policies Version
}

// Covers reports whether nothing in the other basis is later.
func (b Basis) Covers(other Basis) bool {
	return b.Objects >= other.Objects && b.Policies >= other.Policies && b.hasNamespaces(other.Namespaces)
}

// hasNamespaces reports whether demand by this basis is not affected by changes of namespaces up to a version.
func (b Basis) hasNamespaces(version Version) bool {
	return b.Namespaces == 0 || b.Namespaces >= version
}
