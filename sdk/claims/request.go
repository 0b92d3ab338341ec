package claims

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Request is a request for quota for an object.
type Request struct {
	// Owner is the object. The claim is in its namespace, and goes with it.
	Owner client.Object
	// Consumer is the consumer to charge. It cannot change later.
	Consumer quotav1alpha1.ConsumerRef
	// Amounts are 1 to 20 amounts, each of another resource type, in base units and in any order. Bursar grants all of
	// them or none.
	Amounts []quotav1alpha1.ResourceRequest
	// Namespace is the namespace of the claim of a cluster-scoped object. It is empty for other objects.
	Namespace string
}

// For returns the request of a namespaced object.
func For(owner client.Object, consumer quotav1alpha1.ConsumerRef, amounts ...quotav1alpha1.ResourceRequest) Request {
	return Request{Owner: owner, Consumer: consumer, Amounts: amounts}
}

// Amount returns an amount of a resource type, in base units.
func Amount(resourceType string, amount int64) quotav1alpha1.ResourceRequest {
	return quotav1alpha1.ResourceRequest{ResourceType: resourceType, Amount: amount}
}

// namespace returns the namespace of the claim.
func (r Request) namespace() string {
	if r.Owner.GetNamespace() != "" {
		return r.Owner.GetNamespace()
	}
	return r.Namespace
}

// check returns the errors in a request that the API server cannot detect.
func (r Request) check() error {
	switch {
	case r.Owner == nil:
		return fmt.Errorf("claim quota: the request has no owner")
	case r.Owner.GetUID() == "":
		return fmt.Errorf("claim quota for %s: it has no UID; read it from the API server first", r.Owner.GetName())
	case r.namespace() == "":
		return fmt.Errorf("claim quota for %s: it is in no namespace; set Request.Namespace", r.Owner.GetName())
	case r.Owner.GetNamespace() != "" && r.Namespace != "" && r.Namespace != r.Owner.GetNamespace():
		return fmt.Errorf("claim quota for %s: its claim must be in its namespace %s, to be deleted with it", r.Owner.GetName(), r.Owner.GetNamespace())
	}
	return nil
}

// claim returns the claim for a request, or the error in the request.
func (r Request) claim(scheme *runtime.Scheme) (*quotav1alpha1.ResourceClaim, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	kind, err := apiutil.GVKForObject(r.Owner, scheme)
	if err != nil {
		return nil, fmt.Errorf("claim quota for %s: %w", r.Owner.GetName(), err)
	}
	inOrder := slices.SortedFunc(slices.Values(r.Amounts), func(a, b quotav1alpha1.ResourceRequest) int {
		return cmp.Compare(a.ResourceType, b.ResourceType)
	})
	return &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.namespace(), Name: nameOf(kind, r.Owner),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: r.Owner.GetName(), UID: r.Owner.GetUID(),
				Controller: new(true), BlockOwnerDeletion: new(false),
			}},
		},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: r.Consumer, Requests: inOrder,
			ResourceRef: quotav1alpha1.UnversionedObjectReference{
				APIGroup: kind.Group, Kind: kind.Kind, Name: r.Owner.GetName(), Namespace: r.Owner.GetNamespace(),
			},
		},
	}, nil
}

// prefixMax bounds the readable part of a name.
const prefixMax = 80

// nameOf returns the name of an object's claim: readable, and unique among all objects that ever existed.
func nameOf(kind schema.GroupVersionKind, owner client.Object) string {
	digest := sha256.Sum256([]byte(owner.GetUID()))
	suffix := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(digest[:10]))
	prefix := strings.ToLower(kind.Kind) + "-" + owner.GetName()
	if len(prefix) > prefixMax {
		prefix = strings.TrimRight(prefix[:prefixMax], "-.")
	}
	return prefix + "-" + suffix
}
