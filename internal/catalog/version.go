package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/lru"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// pastMax bounds a catalog's memory of earlier versions of each kind.
const pastMax = 4096

// Version is a digest of the declared policies and registrations. It is the same in every process with the same
// objects, in any order of their arrival.
type Version struct {
	Policies, Registrations Digest
}

// Digest is the digest of a set of objects. It is 0 for the empty set.
type Digest uint64

// String returns a text for a segment of a path.
func (d Digest) String() string { return fmt.Sprintf("%016x", uint64(d)) }

// ParseDigest is the inverse of [Digest.String].
func ParseDigest(text string) (d Digest, err error) {
	if _, err := fmt.Sscanf(text, "%016x", &d); err != nil || d.String() != text {
		return 0, fmt.Errorf("%q is not a digest of declarations: it must be 16 hexadecimal digits", text)
	}
	return d, nil
}

const versionFormat = "%016x-%016x"

// String returns a text for a segment of a path.
func (v Version) String() string {
	return fmt.Sprintf(versionFormat, uint64(v.Policies), uint64(v.Registrations))
}

// ParseVersion is the inverse of [Version.String]. It returns the zero version, for no declarations, for an empty text.
func ParseVersion(text string) (v Version, err error) {
	if text == "" {
		return v, nil
	}
	if _, err := fmt.Sscanf(text, versionFormat, &v.Policies, &v.Registrations); err != nil || v.String() != text {
		return Version{}, fmt.Errorf("%q is not a version of declarations: it must be two times 16 hexadecimal digits with - between them", text)
	}
	return v, nil
}

// VersionOf returns the version of a catalog with only these objects.
func VersionOf(policies []quotav1alpha1.ClaimCreationPolicy, registrations []quotav1alpha1.ResourceRegistration) Version {
	var v Version
	for i := range policies {
		v.Policies ^= stampOfPolicy(&policies[i])
	}
	for i := range registrations {
		v.Registrations ^= stampOfRegistration(&registrations[i])
	}
	return v
}

// stampOfPolicy is 0 for a policy that is disabled or under deletion. It does not contain the status, because the
// status changes during adoption.
func stampOfPolicy(object *quotav1alpha1.ClaimCreationPolicy) Digest {
	if !isDeclared(object) {
		return 0
	}
	return stamp(object.UID, object.Generation)
}

// stampOfRegistration is 0 for an inactive registration. A registration that becomes active again has a new stamp.
// During a deletion, the stamp does not contain the status.
func stampOfRegistration(object *quotav1alpha1.ResourceRegistration) Digest {
	switch {
	case !isActive(object):
		return 0
	case object.DeletionTimestamp != nil:
		return stamp(object.UID, object.Generation, "closing")
	}
	return stamp(object.UID, object.ResourceVersion)
}

func isDeclared(object *quotav1alpha1.ClaimCreationPolicy) bool {
	return object.IsEnabled() && object.DeletionTimestamp == nil
}

// isActive reports whether a registration represents its resource type. A registration under deletion does so while
// it is in use.
func isActive(object *quotav1alpha1.ResourceRegistration) bool {
	return apimeta.IsStatusConditionTrue(object.Status.Conditions, quotav1alpha1.ConditionActive) &&
		(object.DeletionTimestamp == nil || slices.Contains(object.Finalizers, quotav1alpha1.FinalizerInUse))
}

func stamp(of ...any) Digest {
	sum := sha256.Sum256(fmt.Append(nil, of...))
	return Digest(binary.BigEndian.Uint64(sum[:]))
}

// declared is a set of objects, with its earlier digests.
type declared struct {
	stamps map[string]Digest // by name
	digest Digest
	past   *lru.Cache
}

func newDeclared() declared {
	d := declared{stamps: map[string]Digest{}, past: lru.New(pastMax)}
	d.past.Add(d.digest, nil)
	return d
}

// set adds an object with its stamp, or removes it if the stamp is 0.
func (d *declared) set(name string, stamp Digest) {
	d.digest ^= d.stamps[name] ^ stamp
	if d.stamps[name] = stamp; stamp == 0 {
		delete(d.stamps, name)
	}
	d.past.Add(d.digest, nil)
}

func (d *declared) had(digest Digest) bool {
	_, had := d.past.Get(digest)
	return had
}

// Version returns the version of the catalog.
func (c *Catalog) Version() Version {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.versionLocked()
}

func (c *Catalog) versionLocked() Version {
	return Version{c.declaredPolicies.digest, c.declaredRegistrations.digest}
}

// Has reports whether the catalog has all objects declared by a version: it is at that version, or past it.
func (c *Catalog) Has(v Version) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.declaredPolicies.had(v.Policies) && c.declaredRegistrations.had(v.Registrations)
}

// MarkPassed records a version as passed, although the catalog never had it because several changes arrived at once.
func (c *Catalog) MarkPassed(v Version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declaredPolicies.past.Add(v.Policies, nil)
	c.declaredRegistrations.past.Add(v.Registrations, nil)
}
