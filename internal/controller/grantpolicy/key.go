package grantpolicy

import (
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
)

// key names what a policy makes for an object, by their UIDs.
type key struct {
	policy, object types.UID
}

// keyOf returns the key that a grant is labelled with, and false if it is of no policy.
func keyOf(grant *quotav1alpha1.ResourceGrant) (key, bool) {
	policy := grant.Labels[quotav1alpha1.LabelPolicyUID]
	object := grant.Annotations[quotav1alpha1.AnnotationResourceUID]
	return key{types.UID(policy), types.UID(object)}, policy != ""
}

// isOf tells whether a grant was made for a key. One mark is enough, so that the others can be put
// back; a grant that a person made has none.
func (k key) isOf(grant *quotav1alpha1.ResourceGrant) bool {
	marked, ok := keyOf(grant)
	if ok {
		return marked == k || marked == key{policy: k.policy}
	}
	return marked.object == k.object && grant.Annotations[quotav1alpha1.AnnotationCreatedBy] == quotav1alpha1.CreatedByGrantCreation
}

// inventory is the policies' grants that a control plane is known to hold.
type inventory struct {
	// mark is that of the grants in it. Those that were made by way of another registration of the same
	// API server are left to that one.
	mark     string
	byKey    map[key]map[types.NamespacedName]*quotav1alpha1.ResourceGrant
	byName   map[types.NamespacedName]key
	byPolicy map[types.UID]map[key]struct{}
}

func newInventory(ref remote.Ref) *inventory {
	return &inventory{
		mark:     ref.Mark(),
		byKey:    map[key]map[types.NamespacedName]*quotav1alpha1.ResourceGrant{},
		byName:   map[types.NamespacedName]key{},
		byPolicy: map[types.UID]map[key]struct{}{},
	}
}

// put enters a grant, or takes it out if it is of no policy or elsewhere. It returns the keys that are
// concerned.
func (i *inventory) put(grant *quotav1alpha1.ResourceGrant) []key {
	name := nameOf(grant)
	var concerned []key
	k, ok := keyOf(grant)
	ok = ok && grant.Annotations[quotav1alpha1.AnnotationParentContext] == i.mark
	if before, was := i.byName[name]; was && (!ok || before != k) {
		i.drop(name)
		concerned = append(concerned, before)
	}
	if !ok {
		return concerned
	}
	if i.byKey[k] == nil {
		i.byKey[k] = map[types.NamespacedName]*quotav1alpha1.ResourceGrant{}
	}
	i.byKey[k][name] = grant
	i.byName[name] = k
	if i.byPolicy[k.policy] == nil {
		i.byPolicy[k.policy] = map[key]struct{}{}
	}
	i.byPolicy[k.policy][k] = struct{}{}
	return append(concerned, k)
}

// remove takes out the grant of that name if it has that UID, and returns its key.
func (i *inventory) remove(name types.NamespacedName, uid types.UID) (key, bool) {
	k, ok := i.byName[name]
	if !ok || i.byKey[k][name].UID != uid {
		return key{}, false
	}
	i.drop(name)
	return k, true
}

func (i *inventory) drop(name types.NamespacedName) {
	k := i.byName[name]
	delete(i.byName, name)
	delete(i.byKey[k], name)
	if len(i.byKey[k]) == 0 {
		delete(i.byKey, k)
		delete(i.byPolicy[k.policy], k)
	}
	if len(i.byPolicy[k.policy]) == 0 {
		delete(i.byPolicy, k.policy)
	}
}

func nameOf(grant *quotav1alpha1.ResourceGrant) types.NamespacedName {
	return types.NamespacedName{Namespace: grant.Namespace, Name: grant.Name}
}
