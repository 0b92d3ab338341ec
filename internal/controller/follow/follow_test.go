package follow

import (
	"errors"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	metadatafake "k8s.io/client-go/metadata/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/kube/discoverycache"
	"github.com/bursar/bursar/internal/kube/objectcache"
)

// brokenGroup serves ConfigMaps, and fails for another group.
type brokenGroup struct{}

func (brokenGroup) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	core := &metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "v1", Version: "v1"}}, PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "v1", Version: "v1"}}
	list := &metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}}}
	return []*metav1.APIGroup{core}, []*metav1.APIResourceList{list}, &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "down.example.com", Version: "v1"}: errors.New("503")}}
}

// The controller follows the kinds of other groups in spite of one group's failed discovery.
func TestFollowBesideABrokenGroup(t *testing.T) {
	c := catalog.New()
	r := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: "t", ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{Kind: "Org"},
		ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}, {APIGroup: "down.example.com", Kind: "Thing"}},
	}}
	r.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue}}
	c.SetRegistration(r)
	for name, trigger := range map[string]quotav1alpha1.ClaimTriggerResource{"a": {APIVersion: "v1", Kind: "ConfigMap"}, "b": {APIVersion: "down.example.com/v1", Kind: "Thing"}} {
		p := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Trigger.Resource = trigger
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef = quotav1alpha1.ConsumerRef{Kind: "Org", Name: "acme"}
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests = []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "t", Amount: 1}}
		if errs := c.SetPolicy(p); len(errs) > 0 {
			t.Fatal(errs)
		}
	}
	served := discoverycache.New(brokenGroup{}, nil)
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := objectcache.New(metadatafake.NewSimpleMetadataClient(scheme), served)
	New(c, claimcache.New(), objects, served, logr.Discard()).check(t.Context())
	if err := objects.WaitForSync(t.Context(), schema.GroupKind{Kind: "ConfigMap"}); err != nil {
		t.Error(err)
	}
}
