package grantpolicy

import (
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
)

// key is the pair of a policy and an object, by their UIDs.
type key struct {
	policy, object types.UID
}

// keyOf returns the key in the labels of a grant, and false if no policy created it.
func keyOf(grant *quotav1alpha1.ResourceGrant) (key, bool) {
	policy := grant.Labels[quotav1alpha1.LabelPolicyUID]
	object := grant.Annotations[quotav1alpha1.AnnotationResourceUID]
	return key{types.UID(policy), types.UID(object)}, policy != ""
}

// isOf reports whether the controller created a grant for a key. One label is enough: then the controller can restore
// the others. A grant of a user has none.
func (k key) isOf(grant *quotav1alpha1.ResourceGrant) bool {
	marked, ok := keyOf(grant)
	if ok {
		return marked == k || marked == key{policy: k.policy}
	}
	return marked.object == k.object && grant.Annotations[quotav1alpha1.AnnotationCreatedBy] == quotav1alpha1.CreatedByGrantCreation
}

// inventory holds the known grants of policies in a control plane.
type inventory struct {
	// mark is the registration of its grants. Grants by another registration of the same API server belong to the other
	// one.
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

// put stores a grant, or removes it if it has no policy or another registration. It returns the affected keys.
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

// remove removes the grant with the name and UID, and returns its key.
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
