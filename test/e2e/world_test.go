package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
)

// soon bounds waits for immediate effects. It is generous, because tests run beside each other with the race detector.
// It is shorter than the life of a reservation: see [requestTimeout].
const soon = 45 * time.Second

// eventually waits until check returns nil.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	await.NoError(t, soon, check)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// change changes an object in its stored form, and retries after conflicts with other writers.
func change[T client.Object](t testing.TB, object T, how func(T)) {
	t.Helper()
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		how(object)
		return admin.Update(t.Context(), object)
	}))
}

// list is a resource list of names and amounts, such as count/secrets=10.
func list(amounts ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for _, amount := range amounts {
		name, quantity, _ := strings.Cut(amount, "=")
		l[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return l
}

var notNameCharacters = regexp.MustCompile(`[^a-z0-9]+`)

// nameOf is a name for a test's own objects: a namespace, a consumer, or cluster-scoped objects.
func nameOf(t testing.TB) string {
	return strings.Trim(notNameCharacters.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
}

// world is a namespace of its own with a resource type and a consumer of its own. By default
// each ConfigMap in it uses up one.
type world struct {
	*testing.T
	ctx  context.Context
	name string
}

// resourceType is the world's own resource type.
func (w *world) resourceType() string { return w.name + "/configmaps" }

// consumer is the Organization that pays for the world's objects.
func (w *world) consumer() quotav1alpha1.ConsumerRef {
	return platform.Consumer(w.name)
}

// newWorld makes a world with a registration, a namespace and nothing else.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldFor(t, quotav1alpha1.ClaimingResource{Kind: "ConfigMap"})
}

// newWorldFor makes a world whose resource type the objects of a kind may claim.
func newWorldFor(t *testing.T, claiming quotav1alpha1.ClaimingResource) *world {
	t.Helper()
	name := nameOf(t)
	w := &world{T: t, ctx: t.Context(), name: name}
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	registration := w.registration(w.resourceType())
	registration.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{claiming}
	w.mustCreate(registration)
	w.waitCondition(&quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(w.resourceType())}},
		quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	return w
}

// newProtectedWorld makes a world with protected ConfigMaps, and that limit.
func newProtectedWorld(t *testing.T, limit int64) *world {
	t.Helper()
	w := newWorld(t)
	w.grant("base", limit)
	w.policy(w.name, nil)
	return w
}

// newClaimedWorld makes a protected world in which claims hold the charges of objects.
func newClaimedWorld(t *testing.T, limit int64) *world {
	t.Helper()
	w := newWorld(t)
	w.grant("base", limit)
	w.policy(w.name, keepsClaims)
	return w
}

// keepsClaims makes the claims of a policy hold the charges: they say who asked for the objects.
func keepsClaims(p *quotav1alpha1.ClaimCreationPolicy) {
	metadata := &p.Spec.Target.ResourceClaimTemplate.Metadata
	if metadata.Annotations == nil {
		metadata.Annotations = map[string]string{}
	}
	metadata.Annotations["example.com/asked-by"] = "{{.user.name}}"
}

func registrationName(resourceType string) string {
	return strings.Trim(notNameCharacters.ReplaceAllString(resourceType, "-"), "-")
}

func (w *world) registration(resourceType string) *quotav1alpha1.ResourceRegistration {
	return &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: registrationName(resourceType)},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType:         resourceType,
			Type:                 quotav1alpha1.RegistrationTypeEntity,
			ConsumerTypeRef:      platform.ConsumerType(),
			BaseUnit:             "map",
			DisplayUnit:          "map",
			UnitConversionFactor: 1,
			ClaimingResources:    []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
		},
	}
}

// grant gives the world's consumer an amount of its resource type and waits until the grant counts.
func (w *world) grant(name string, amount int64) *quotav1alpha1.ResourceGrant {
	w.Helper()
	return w.grantTypes(name, map[string]int64{w.resourceType(): amount})
}

func (w *world) grantTypes(name string, amounts map[string]int64) *quotav1alpha1.ResourceGrant {
	w.Helper()
	grant := &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name},
		Spec:       quotav1alpha1.ResourceGrantSpec{ConsumerRef: w.consumer()},
	}
	for resourceType, amount := range amounts {
		grant.Spec.Allowances = append(grant.Spec.Allowances, quotav1alpha1.Allowance{
			ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: amount}},
		})
	}
	w.mustCreate(grant)
	w.waitCondition(grant, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	return grant
}

// policy protects the ConfigMaps of the world and waits until it is effective. change may alter it first.
func (w *world) policy(name string, change func(*quotav1alpha1.ClaimCreationPolicy)) *quotav1alpha1.ClaimCreationPolicy {
	w.Helper()
	policy := w.newPolicy(name)
	if change != nil {
		change(policy)
	}
	w.mustCreate(policy)
	w.waitCondition(policy, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	return policy
}

func (w *world) newPolicy(name string) *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: fmt.Sprintf("trigger.metadata.namespace == %q", w.name)}},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: name + "-{{.trigger.metadata.name}}"},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: w.consumer(),
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: w.resourceType(), Amount: 1}},
				},
			}},
		},
	}
}

func (w *world) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name}}
}

// claim is a direct claim of a service.
func (w *world) claim(name string, amount int64) *quotav1alpha1.ResourceClaim {
	return &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: w.consumer(),
			ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: name, Namespace: w.name},
			Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: w.resourceType(), Amount: amount}},
		},
	}
}

// mustCreate creates an object and deletes it when the test ends.
func (w *world) mustCreate(object client.Object) {
	w.Helper()
	if err := admin.Create(w.ctx, object); err != nil {
		w.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
	w.cleanUp(object)
}

// cleanUp deletes an object when the test ends, and tries again if a busy server could not call a webhook in time.
func (w *world) cleanUp(object client.Object) {
	w.Cleanup(func() {
		err := retry.OnError(retry.DefaultBackoff, apierrors.IsInternalError, func() error {
			return admin.Delete(context.Background(), object)
		})
		if err != nil && !apierrors.IsNotFound(err) {
			w.Errorf("delete %T %s: %v", object, object.GetName(), err)
		}
	})
}

func (w *world) mustDelete(object client.Object) {
	w.Helper()
	if err := admin.Delete(w.ctx, object); err != nil {
		w.Fatalf("delete %T %s: %v", object, object.GetName(), err)
	}
}

// wantExceeded creates an object, expects a denial for lack of quota, and returns the message.
func (w *world) wantExceeded(object client.Object, options ...client.CreateOption) string {
	w.Helper()
	err := admin.Create(w.ctx, object, options...)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		w.Fatalf("create %T %s: got %v, want it to be forbidden because quota is exceeded", object, object.GetName(), err)
	}
	return err.Error()
}

// waitCondition waits until an object's condition has that status, and leaves the object in the form read last.
func (w *world) waitCondition(object client.Object, conditionType string, status metav1.ConditionStatus) metav1.Condition {
	w.Helper()
	var found metav1.Condition
	eventually(w, func() error {
		if err := admin.Get(w.ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		condition := apimeta.FindStatusCondition(conditionsOf(object), conditionType)
		if condition == nil || condition.Status != status || condition.ObservedGeneration != object.GetGeneration() {
			return fmt.Errorf("condition %s of %T %s is %+v, want %s", conditionType, object, object.GetName(), condition, status)
		}
		found = *condition
		return nil
	})
	return found
}

func conditionsOf(object client.Object) []metav1.Condition {
	switch object := object.(type) {
	case *quotav1alpha1.ResourceRegistration:
		return object.Status.Conditions
	case *quotav1alpha1.ResourceGrant:
		return object.Status.Conditions
	case *quotav1alpha1.ResourceClaim:
		return object.Status.Conditions
	case *quotav1alpha1.ClaimCreationPolicy:
		return object.Status.Conditions
	case *quotav1alpha1.GrantCreationPolicy:
		return object.Status.Conditions
	}
	panic(fmt.Sprintf("%T has no conditions", object))
}

// bucket returns the bucket of the world's consumer and resource type over all dimensions.
func (w *world) bucket() (*quotav1alpha1.AllowanceBucket, error) {
	return bucketOf(w.ctx, w.consumer(), w.resourceType())
}

func bucketOf(ctx context.Context, consumer quotav1alpha1.ConsumerRef, resourceType string) (*quotav1alpha1.AllowanceBucket, error) {
	var list quotav1alpha1.AllowanceBucketList
	if err := admin.List(ctx, &list, client.MatchingFields{"spec.consumerRef.kind": consumer.Kind, "spec.consumerRef.name": consumer.Name}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Spec.ConsumerRef == consumer && list.Items[i].Spec.ResourceType == resourceType && list.Items[i].Spec.Dimensions == nil {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("no bucket of %s for %s %s", resourceType, consumer.Kind, consumer.Name)
}

// wantBucket waits until the bucket shows these numbers.
func (w *world) wantBucket(limit, allocated, available int64, claims int32) {
	w.Helper()
	eventually(w, func() error {
		bucket, err := w.bucket()
		if err != nil {
			return err
		}
		s := bucket.Status
		if s.Limit != limit || s.Allocated != allocated || s.Available != available || s.ClaimCount != claims {
			return fmt.Errorf("the bucket has limit %d, allocated %d, available %d, claims %d; want %d, %d, %d, %d",
				s.Limit, s.Allocated, s.Available, s.ClaimCount, limit, allocated, available, claims)
		}
		return nil
	})
}

// claims returns the claims of the world's consumer, in all namespaces.
func (w *world) claims() []quotav1alpha1.ResourceClaim {
	w.Helper()
	var list quotav1alpha1.ResourceClaimList
	if err := admin.List(w.ctx, &list, client.MatchingFields{"spec.consumerRef.kind": platform.Kind, "spec.consumerRef.name": w.name}); err != nil {
		w.Fatalf("list claims: %v", err)
	}
	return list.Items
}
