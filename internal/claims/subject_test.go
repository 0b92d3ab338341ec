package claims_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
)

func TestDecodeSubject(t *testing.T) {
	app := quotav1alpha1.UnversionedObjectReference{APIGroup: "apps", Kind: "Deployment", Namespace: "web", Name: "shop"}
	name := types.NamespacedName{Namespace: "web", Name: "shop-quota"}
	claim := &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec:       quotav1alpha1.ResourceClaimSpec{ResourceRef: app},
	}

	for what, test := range map[string]struct {
		encoded string
		want    claims.Subject
	}{
		"claim with an object": {claims.SubjectOf(claimcache.Compact(claim)), claims.Subject{Claim: "web/shop-quota", Object: app}},
		"claim without an object": {
			claims.SubjectOf(claimcache.Compact(&quotav1alpha1.ResourceClaim{ObjectMeta: claim.ObjectMeta})), claims.Subject{Claim: "web/shop-quota"},
		},
		"intent": {
			claims.Intent{
				Claim: name, Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
				Object: types.NamespacedName{Namespace: "web", Name: "shop"}, Labels: map[string]string{"a": "b"},
			}.Encode(),
			claims.Subject{Claim: "web/shop-quota", Object: app},
		},
		"intent of a cluster-wide object of the core group": {
			claims.Intent{Claim: name, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Object: types.NamespacedName{Name: "shop"}}.Encode(),
			claims.Subject{Claim: "web/shop-quota", Object: quotav1alpha1.UnversionedObjectReference{Kind: "Namespace", Name: "shop"}},
		},
		"reference": {claims.Reference(name), claims.Subject{Claim: "web/shop-quota"}},
		"nothing":   {"", claims.Subject{}},
		"no JSON":   {"payload", claims.Subject{}},
	} {
		t.Run(what, func(t *testing.T) {
			if difference := cmp.Diff(test.want, claims.DecodeSubject(test.encoded)); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}
