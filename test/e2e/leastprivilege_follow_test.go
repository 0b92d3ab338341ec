package e2e

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

const replicasType = "platform.example.com/replicas"

var (
	fleetKind = schema.GroupVersionKind{Group: "fleet.example.com", Version: "v1", Kind: "Fleet"}
	fleets    = fleetKind.GroupVersion().WithResource("fleets")
	globex    = platform.Consumer("globex")
)

// follow has policies follow changes of Fleets. Fleets scale, and cost one for each replica. Bursar counts the one from
// before, resizes them, moves them to another consumer, admits them in other modes, and counts those created past
// enforcement.
func (s *scene) follow() {
	s.installFleets()
	s.create(s.fleet("old", 1)) // before its policy
	more := grant(5)
	more.Name, more.Spec.Allowances[0].ResourceType = "replicas", replicasType
	others := more.DeepCopy()
	others.Name, others.Spec.ConsumerRef = "globex", globex
	replicas := registration()
	replicas.Name, replicas.Spec.ResourceType, replicas.Spec.Type = "replicas", replicasType, quotav1alpha1.RegistrationTypeAllocation
	replicas.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{{APIGroup: fleetKind.Group, Kind: fleetKind.Kind}}
	s.create(replicas, more, others, followingPolicy())
	s.waitReady("fleets")
	s.wantAllocatedOf(replicasType, 1, 1)
	s.wantEvent("Recounted", "existing objects that count by the policy: 1 of 1, for 1 consumer")

	s.create(s.fleet("a", 1))
	must(s, s.scale("a", 3))
	s.wantAllocatedOf(replicasType, 4, 2)
	s.wantExceeded(s.scale("a", 5))
	s.wantExceeded(s.set("a", int64(5), "spec", "replicas"))
	must(s, s.set("a", int64(2), "spec", "replicas"))
	s.wantAllocatedOf(replicasType, 3, 2)
	must(s, s.set("a", globex.Name, "spec", "payer"))
	s.wantAllocatedOf(replicasType, 1, 1)

	s.inMode(quotav1alpha1.EnforcementModeWarn)
	must(s, s.scale("old", 6))
	s.wantAllocatedOf(replicasType, 6, 1)
	s.inMode(quotav1alpha1.EnforcementModeAudit)
	s.create(s.fleet("b", 1))
	s.wantEvent("NotEnforced", "Fleet "+tenantNamespace+"/b")
	s.wantAllocatedOf(replicasType, 7, 2)

	s.inMode(quotav1alpha1.EnforcementModeEnforce)
	s.wantExceeded(s.Create(s.Context(), s.fleet("c", 1)))
	must(s, s.breakingGlass().Create(s.Context(), s.fleet("c", 1)))
	s.wantEvent("BrokenGlass", "CREATE by jane")
	s.wantAllocatedOf(replicasType, 8, 3)
	for _, name := range []string{"old", "a", "b", "c"} {
		must(s, s.Delete(s.Context(), s.fleet(name, 0)))
	}
	s.wantAllocatedOf(replicasType, 0, 0)
}

// followingPolicy charges a Fleet's replicas, of any number, to the payer that the Fleet names.
func followingPolicy() *quotav1alpha1.ClaimCreationPolicy {
	p := policy("fleets", "")
	p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: fleetKind.GroupVersion().String(), Kind: fleetKind.Kind}
	p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
	template := &p.Spec.Target.ResourceClaimTemplate.Spec
	template.ConsumerRef.Name = `{{default "` + acme.Name + `" .trigger.spec.payer}}`
	template.Requests = []quotav1alpha1.ResourceRequestTemplate{{ResourceType: replicasType, AmountExpression: "trigger.spec.replicas"}}
	return p
}

func (s *scene) installFleets() {
	s.Helper()
	s.create(platform.ScalableDefinition(fleetKind.Group, fleetKind.Kind, fleets.Resource))
	eventually(s, func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(fleetKind.GroupVersion().WithKind("FleetList"))
		return s.List(s.Context(), list)
	})
}

func (s *scene) fleet(name string, replicas int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas}}}
	object.SetGroupVersionKind(fleetKind)
	object.SetNamespace(tenantNamespace)
	object.SetName(name)
	return object
}

// set changes a field of the stored Fleet.
func (s *scene) set(name string, value any, path ...string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object := s.fleet(name, 0)
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			return err
		}
		return s.Update(s.Context(), object)
	})
}

// scale changes the number of a Fleet's replicas through the scale subresource.
func (s *scene) scale(name string, replicas int32) error {
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	return s.SubResource("scale").Update(s.Context(), s.fleet(name, 0), client.WithSubResourceBody(scale))
}

// inMode puts the policy of the Fleets into another mode.
func (s *scene) inMode(mode quotav1alpha1.EnforcementMode) {
	s.Helper()
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "fleets"}}
	must(s, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		policy.Spec.EnforcementMode = mode
		return s.Update(s.Context(), policy)
	}))
	s.waitReady(policy.Name)
}

// breakingGlass is an administrator past enforcement.
func (s *scene) breakingGlass() client.Client {
	api, err := s.as(rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:masters", quotav1alpha1.BreakGlassGroup}})
	must(s, err)
	return api
}

func (s *scene) wantExceeded(err error) {
	s.Helper()
	if !platform.IsExceeded(err) {
		s.Fatalf("got %v, want it to be refused for lack of quota", err)
	}
}

// wantEvent waits for an event with a text.
func (s *scene) wantEvent(reason, text string) {
	s.Helper()
	eventually(s, func() error {
		var list eventsv1.EventList
		if err := s.List(s.Context(), &list); err != nil {
			return err
		}
		for i := range list.Items {
			if event := &list.Items[i]; event.Reason == reason && strings.Contains(event.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("no event %s says %q", reason, text)
	})
}
