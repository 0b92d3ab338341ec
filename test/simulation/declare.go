package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/simulation/controlplane"
)

const (
	resourceType = "maps"
	policyName   = "maps"
	// payerLabel is the label of a namespace with the name of the consumer who pays for its objects.
	payerLabel = "payer"
)

var (
	scheme = newScheme()
	mapper = newMapper()
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := errors.Join(quotav1alpha1.AddToScheme(s), corev1.AddToScheme(s)); err != nil {
		panic(err)
	}
	return s
}

func newMapper() apimeta.RESTMapper {
	m := apimeta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ClaimCreationPolicy", "ResourceRegistration", "ConsumerLedger"} {
		m.Add(quotav1alpha1.GroupVersion.WithKind(kind), apimeta.RESTScopeRoot)
	}
	m.Add(quotav1alpha1.GroupVersion.WithKind("ResourceClaim"), apimeta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), apimeta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), apimeta.RESTScopeRoot)
	return m
}

// consumer returns the consumer of a number. Its namespace has the same name.
func consumer(number int) quotav1alpha1.ConsumerRef {
	return platform.Consumer("org-" + strconv.Itoa(number))
}

// registration counts ConfigMaps by the cost in them.
func registration() *quotav1alpha1.ResourceRegistration {
	r := &quotav1alpha1.ResourceRegistration{
		TypeMeta:   metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceRegistration"},
		ObjectMeta: metav1.ObjectMeta{Name: resourceType, UID: "registration", Generation: 1},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: resourceType, Type: quotav1alpha1.RegistrationTypeEntity, BaseUnit: "map", DisplayUnit: "map", UnitConversionFactor: 1,
			ConsumerTypeRef: platform.ConsumerType(), ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
		},
	}
	apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	return r
}

// policy charges each ConfigMap to the consumer of its namespace. If its claims annotate the user, they are claims of
// record. Otherwise the ConfigMaps themselves count.
func policy(s *shape) *quotav1alpha1.ClaimCreationPolicy {
	p := &quotav1alpha1.ClaimCreationPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ClaimCreationPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: policyName, UID: "policy", Generation: 1},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
				Operations: []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: platform.Consumer("{{.trigger.metadata.namespace}}"),
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: resourceType, AmountExpression: amountExpression(1)}},
				},
			}},
		},
	}
	if s.movesNamespaces {
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef = platform.Consumer("{{.namespaceObject.metadata.labels." + payerLabel + "}}")
	}
	if s.followsUpdates {
		p.Spec.Trigger.Operations = append(p.Spec.Trigger.Operations, quotav1alpha1.TriggerOperationUpdate)
	}
	switch s.mode {
	case ofRecord:
		p.Spec.Target.ResourceClaimTemplate.Metadata.Annotations = map[string]string{"example.com/asked-by": "{{.user.name}}"}
	case counted:
		p.Spec.Claims = quotav1alpha1.ClaimsModeNone
	case viewed:
		p.Spec.Claims = quotav1alpha1.ClaimsModeObjects
	}
	makeEffective(p)
	return p
}

// makeEffective writes the status of a policy that decides requests.
func makeEffective(p *quotav1alpha1.ClaimCreationPolicy) {
	apimeta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: p.Generation})
	p.Status.ObservedGeneration = p.Generation
	p.Status.Effective = &quotav1alpha1.EffectivePolicy{Generation: p.Generation, Spec: runtime.RawExtension{Raw: encoded(&p.Spec)}}
}

func encoded(object any) []byte {
	content, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return content
}

// declare stores the declarations, and the namespace and a standing claim of each consumer.
func (w *World) declare() {
	w.mustCreate(controlplane.Key{Resource: "resourceregistrations", Name: resourceType}, registration())
	w.mustCreate(controlplane.Key{Resource: "claimcreationpolicies", Name: policyName}, policy(&w.shape))
	w.publish()
	for i := range w.shape.consumers {
		w.model.limits[consumer(i)] = w.shape.limit
		w.mustCreate(controlplane.Key{Resource: "namespaces", Name: consumer(i).Name}, &corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{
				Name: consumer(i).Name, Labels: map[string]string{payerLabel: consumer(i).Name},
			},
		})
		w.createClaim(consumer(i), "standing", w.shape.standing)
	}
}

func (w *World) mustCreate(key controlplane.Key, object any) {
	_, err := w.store.Create(key, object)
	w.must(err)
}

// createClaim creates a claim as a user does.
func (w *World) createClaim(of quotav1alpha1.ConsumerRef, name string, amount int64) {
	w.mustCreate(controlplane.Key{Resource: "resourceclaims", Namespace: of.Name, Name: name}, &quotav1alpha1.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Name, Name: name},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: of, Requests: []quotav1alpha1.ResourceRequest{{ResourceType: resourceType, Amount: amount}},
			ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Namespace: of.Name, Name: name},
		},
	})
}

// setLimit has a replica set the limit of a consumer. A replica may fail to.
func (r *replica) setLimit(ctx context.Context, of quotav1alpha1.ConsumerRef, generation, limit int64) error {
	return r.store.SetGrants(ctx, of, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		return []ledger.Grant{{
			UID: "grant", Name: "grant", Generation: generation, Allowances: []ledger.Allowance{{ResourceType: resourceType, Amount: ledger.Amount(limit)}},
		}}, nil
	})
}

// standingIsGranted returns nil once the limits are set and the standing claims are granted.
func (w *World) standingIsGranted() error {
	for i := range w.shape.consumers {
		if w.model.limitOf(consumer(i)) == 0 {
			if err := w.hosts[0].current.Load().setLimit(w.t.Context(), consumer(i), 1, w.shape.limit); err != nil {
				return err
			}
		}
		if demand := w.model.demandOf(consumer(i)); demand != w.shape.standing {
			return fmt.Errorf("%s demands %d", consumer(i).Name, demand)
		}
	}
	return nil
}

// settleDown waits until something holds. It takes minutes at most.
func (w *World) settleDown(what string, check func() error) {
	var err error
	for range settleTime / settlePoll {
		if err = check(); err == nil {
			return
		}
		time.Sleep(settlePoll) // of the simulated clock
	}
	w.violate("%s never becomes true: %v", what, err)
}

const (
	settleTime = 10 * time.Minute
	settlePoll = 500 * time.Millisecond
)

// violate reports a violation.
func (w *World) violate(format string, args ...any) {
	w.t.Helper()
	w.note("VIOLATION: "+format, args...)
	w.t.Errorf("after %s: %s", time.Since(w.began), fmt.Sprintf(format, args...))
}
