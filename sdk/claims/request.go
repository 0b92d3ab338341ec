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

// Request is what an object is to have.
type Request struct {
	// Owner is the object. The claim is in its namespace, and goes with it.
	Owner client.Object
	// Consumer is whose quota is charged. It cannot be another later.
	Consumer quotav1alpha1.ConsumerRef
	// Amounts are 1 to 20, each of another resource type, in base units and in any order. All of them are granted, or
	// none.
	Amounts []quotav1alpha1.ResourceRequest
	// Namespace is where the claim of a cluster-scoped object is. It is empty for others.
	Namespace string
}

// For returns the request of a namespaced object.
func For(owner client.Object, consumer quotav1alpha1.ConsumerRef, amounts ...quotav1alpha1.ResourceRequest) Request {
	return Request{Owner: owner, Consumer: consumer, Amounts: amounts}
}

// Amount is so much of a resource type, in base units.
func Amount(resourceType string, amount int64) quotav1alpha1.ResourceRequest {
	return quotav1alpha1.ResourceRequest{ResourceType: resourceType, Amount: amount}
}

// namespace is where the claim is.
func (r Request) namespace() string {
	if r.Owner.GetNamespace() != "" {
		return r.Owner.GetNamespace()
	}
	return r.Namespace
}

// check says what is wrong with a request that the API server cannot see.
func (r Request) check() error {
	switch {
	case r.Owner == nil:
		return fmt.Errorf("claim quota: the request has no owner")
	case r.Owner.GetUID() == "":
		return fmt.Errorf("claim quota for %s: it has no UID; read it from the API server first", r.Owner.GetName())
	case r.namespace() == "":
		return fmt.Errorf("claim quota for %s: it is in no namespace; set Request.Namespace", r.Owner.GetName())
	case r.Owner.GetNamespace() != "" && r.Namespace != "" && r.Namespace != r.Owner.GetNamespace():
		return fmt.Errorf("claim quota for %s: its claim has to be in its namespace %s, so that it goes with it", r.Owner.GetName(), r.Owner.GetNamespace())
	}
	return nil
}

// claim is the claim that a request asks for. The error says what is wrong with the request.
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

// nameOf is the name of the claim of an object: readable, and another one for each object there ever was.
func nameOf(kind schema.GroupVersionKind, owner client.Object) string {
	digest := sha256.Sum256([]byte(owner.GetUID()))
	suffix := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(digest[:10]))
	prefix := strings.ToLower(kind.Kind) + "-" + owner.GetName()
	if len(prefix) > prefixMax {
		prefix = strings.TrimRight(prefix[:prefixMax], "-.")
	}
	return prefix + "-" + suffix
}
