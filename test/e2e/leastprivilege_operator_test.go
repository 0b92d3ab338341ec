package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/rbac"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/kube/permission"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/test/platform"
)

const (
	mapsType        = "platform.example.com/maps"
	tenantNamespace = "tenant"
	claimsNamespace = "tenant-claims"
)

var (
	acme          = platform.Consumer("acme")
	organizations = schema.GroupVersionResource{Group: platform.Group, Version: "v1", Resource: "organizations"}
)

// notAsked are permissions of the roles that the operator does not use in this test, with the reasons to grant them.
// The operator must use all others.
var notAsked = map[string]string{
	"get grantcreationpolicies": parents,
	"update allowancebuckets":   oldBuckets,
	"update secrets":            renewal,
}

const (
	parents    = "a policy keeps on record where else it makes grants; here is no such place"
	renewal    = "a certificate is renewed after nine months"
	oldBuckets = "buckets without an owner get one; here is none"
)

// TestOperatorWithItsRoleAlone runs the operator with its own roles, as on a cluster, and a role for the kinds of the
// policies here. The operator does all its work, the API server never forbids it anything, and it uses every
// permission.
func TestOperatorWithItsRoleAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	roles, err := rbac.ForOperator(systemNamespace)
	if err != nil {
		t.Fatal(err)
	}
	s.permit(roles)
	s.permitKinds()
	var asked requests
	defer func() {
		for _, refusal := range asked.refusals() {
			t.Errorf("the operator was forbidden %s", refusal)
		}
	}()

	revoke := s.permitInstall(roles)
	s.run(&asked, operator.Options{InstallCRDs: true})()
	s.outdateDefinition()
	s.run(&asked, operator.Options{InstallCRDs: true})()
	revoke()

	// From here on somebody else installs the CRDs.
	stop := s.run(&asked, operator.Options{})
	s.exercise()
	stop()
	stop = s.run(&asked, operator.Options{Quota: config.Quota{ConsumerNamespaces: []config.ConsumerNamespace{{APIGroup: platform.Group, Kind: platform.Kind, Namespace: tenantNamespace}}}})
	s.wantMoved()
	stop()

	for _, rules := range [][]rbacv1.PolicyRule{roles.Role.Rules, roles.Install.Rules, roles.System.Rules} {
		wantAsked(t, &asked, rules)
	}
}

// permitKinds lets Bursar follow ConfigMaps, Fleets and Organizations, by the advice in Bursar's own message.
func (s *scene) permitKinds() {
	s.Helper()
	reviews, err := kubernetes.NewForConfig(s.operatorConfig())
	if err != nil {
		s.Fatal(err)
	}
	for _, resource := range []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("configmaps"), fleets, organizations} {
		problem := func() string {
			problem, err := permission.New(reviews.AuthorizationV1().SelfSubjectAccessReviews()).Follow(s.Context(), resource)
			if err != nil {
				s.Fatal(err)
			}
			return problem
		}
		want := fmt.Sprintf("labelled %s=true that allows get, list, watch on %s", quotav1alpha1.LabelAggregateToOperator, resource.Resource)
		if got := problem(); !strings.Contains(got, want) {
			s.Errorf("before Bursar may follow %s, it says %q, want %q", resource.GroupResource(), got, want)
		}
		s.create(&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "bursar-follows-" + resource.Resource, Labels: map[string]string{quotav1alpha1.LabelAggregateToOperator: "true"}},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: []string{"get", "list", "watch"}}},
		})
		eventually(s, func() error {
			if got := problem(); got != "" {
				return fmt.Errorf("after that it says %q", got)
			}
			return nil
		})
	}
}

// outdateDefinition makes one of Bursar's definitions that of another release.
func (s *scene) outdateDefinition() {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.Get(s.Context(), client.ObjectKey{Name: "resourcegrants." + quotav1alpha1.GroupName}, definition); err != nil {
		s.Fatal(err)
	}
	definition.Spec.Versions[0].AdditionalPrinterColumns = nil
	if err := s.Update(s.Context(), definition); err != nil {
		s.Fatal(err)
	}
}

// exercise makes the operator do all its work.
func (s *scene) exercise() {
	if err := platform.Install(s.Context(), s); err != nil {
		s.Fatal(err)
	}
	elsewhere := policy("elsewhere", claimsNamespace)
	keepsClaims(elsewhere)
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantNamespace}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: claimsNamespace}},
		registration(), grant(3), policy("beside", tenantNamespace), elsewhere)
	for _, name := range []string{"beside", "elsewhere"} {
		s.waitReady(name)
	}
	s.waitActive(grant(3))

	s.create(configMap("a")) // it counts, with a view beside it, and has a claim in another namespace
	s.wantAllocated(2)
	if err := s.Create(s.Context(), configMap("b")); !platform.IsExceeded(err) {
		s.Fatalf("got %v, want it to be refused for lack of quota", err)
	}
	direct := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "direct", Namespace: tenantNamespace}, Spec: quotav1alpha1.ResourceClaimSpec{
		ConsumerRef: acme, ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: "direct", Namespace: tenantNamespace},
		Requests: []quotav1alpha1.ResourceRequest{{ResourceType: mapsType, Amount: 1}},
	}}
	s.create(direct)
	s.wantAllocated(3)
	if err := errors.Join(s.Delete(s.Context(), direct), s.Delete(s.Context(), configMap("a"))); err != nil {
		s.Fatal(err)
	}
	s.wantAllocated(0)
	s.create(configMap("b"))
	s.wantAllocated(2)

	s.repair()
	s.restore()
	s.grantByPolicy()
	s.follow()
	s.increase()
	s.allocate()
	s.ask()
	s.permitLater()
	s.depart()
}

// depart grants something to a consumer that does not exist, and takes it back.
func (s *scene) depart() {
	mistyped := grant(1)
	mistyped.Name, mistyped.Spec.ConsumerRef = "mistyped", platform.Consumer("acmee")
	s.create(mistyped)
	s.waitActive(mistyped)
	if err := s.Delete(s.Context(), mistyped); err != nil {
		s.Fatal(err)
	}
	eventually(s, func() error {
		err := s.Get(s.Context(), client.ObjectKey{Name: naming.Ledger(mistyped.Spec.ConsumerRef)}, &quotav1alpha1.ConsumerLedger{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v, want the ledger of a consumer that does not exist to go", err)
		}
		return nil
	})
}

// permitLater makes a policy for a kind that the operator may not follow. The operator reports it without trying, and
// the policy becomes effective with the permission.
func (s *scene) permitLater() {
	policy := &quotav1alpha1.GrantCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Spec: quotav1alpha1.GrantCreationPolicySpec{
		Trigger: quotav1alpha1.GrantTrigger{
			Resource:   quotav1alpha1.GrantTriggerResource{APIVersion: "v1", Kind: "ServiceAccount"},
			Conditions: []quotav1alpha1.ConditionExpression{{Expression: fmt.Sprintf("object.metadata.namespace == %q && object.metadata.name == 'worker'", tenantNamespace)}},
		},
		Target: quotav1alpha1.GrantTarget{ResourceGrantTemplate: quotav1alpha1.ResourceGrantTemplate{
			Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "later"}, Spec: grant(1).Spec,
		}},
	}}
	wantReady := func(status metav1.ConditionStatus, message string) {
		s.Helper()
		eventually(s, func() error {
			if err := s.Get(s.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
				return err
			}
			ready := apimeta.FindStatusCondition(policy.Status.Conditions, quotav1alpha1.ConditionReady)
			if ready == nil || ready.Status != status || !strings.Contains(ready.Message, message) {
				return fmt.Errorf("the policy has the condition %+v, want %s and %q", ready, status, message)
			}
			return nil
		})
	}
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "worker", Namespace: tenantNamespace}}, policy)
	wantReady(metav1.ConditionFalse, "Bursar may not get, list, watch serviceaccounts; create a ClusterRole labelled "+quotav1alpha1.LabelAggregateToOperator+"=true")
	s.create(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "bursar-follows-serviceaccounts", Labels: map[string]string{quotav1alpha1.LabelAggregateToOperator: "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get", "list", "watch"}}},
	})
	wantReady(metav1.ConditionTrue, "")
	eventually(s, func() error {
		return s.Get(s.Context(), client.ObjectKey{Namespace: tenantNamespace, Name: "later"}, &quotav1alpha1.ResourceGrant{})
	})
	if err := s.Delete(s.Context(), policy); err != nil {
		s.Fatal(err)
	}
}

// grantByPolicy has Bursar make, change and delete grants for an existing ConfigMap. It also has somebody forge a
// policy's grant.
func (s *scene) grantByPolicy() {
	policy := &quotav1alpha1.GrantCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: quotav1alpha1.GrantCreationPolicySpec{
		Trigger: quotav1alpha1.GrantTrigger{
			Resource:   quotav1alpha1.GrantTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
			Conditions: []quotav1alpha1.ConditionExpression{{Expression: fmt.Sprintf("object.metadata.namespace == %q && object.metadata.name == 'b'", tenantNamespace)}},
		},
		Target: quotav1alpha1.GrantTarget{ResourceGrantTemplate: quotav1alpha1.ResourceGrantTemplate{
			Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "more"}, Spec: grant(1).Spec,
		}},
	}}
	made := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: tenantNamespace}}
	wantAmount := func(amount int64) {
		s.Helper()
		eventually(s, func() error {
			if err := s.Get(s.Context(), client.ObjectKeyFromObject(made), made); err != nil {
				return err
			}
			if got := made.Spec.Allowances[0].Buckets[0].Amount; got != amount {
				return fmt.Errorf("the policy's grant gives %d, want %d", got, amount)
			}
			return nil
		})
	}
	s.create(policy)
	eventually(s, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(policy.Status.Conditions, quotav1alpha1.ConditionReady) {
			return fmt.Errorf("the policy is not ready: %+v", policy.Status.Conditions)
		}
		return nil
	})
	wantAmount(1)
	must(s, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(made), made); err != nil {
			return err
		}
		made.Spec.Allowances[0].Buckets[0].Amount = 100
		return s.Update(s.Context(), made)
	}))
	wantAmount(1)
	marked := grant(1)
	marked.Name, marked.Labels = "marked", map[string]string{quotav1alpha1.LabelAutoCreated: "true"}
	s.create(marked)
	if err := s.Delete(s.Context(), policy); err != nil {
		s.Fatal(err)
	}
	eventually(s, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(policy), policy); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v, want the policy to go with its grants", err)
		}
		return nil
	})
}

// repair alters the ledger, and Bursar has it show what exists again.
func (s *scene) repair() {
	bursar := s.asBursar()
	eventually(s, func() error {
		ledger := &quotav1alpha1.ConsumerLedger{}
		if err := bursar.Get(s.Context(), client.ObjectKey{Name: naming.Ledger(acme)}, ledger); err != nil {
			return err
		}
		for i := range ledger.Spec.Observations {
			if demands := ledger.Spec.Observations[i].Demands; len(demands) > 0 {
				demands[0].Amount++
				return bursar.Update(s.Context(), ledger)
			}
		}
		return errors.New("nothing is observed yet")
	})
	s.wantAllocated(2)
}

// restore deletes objects, and Bursar replaces them.
func (s *scene) restore() {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "bursar"}}
	bucket := &quotav1alpha1.AllowanceBucket{ObjectMeta: metav1.ObjectMeta{Name: naming.Bucket(acme, mapsType, nil), Namespace: systemNamespace}}
	for _, object := range []client.Object{configuration, bucket} {
		if err := s.Delete(s.Context(), object); err != nil {
			s.Fatal(err)
		}
		eventually(s, func() error { return s.Get(s.Context(), client.ObjectKeyFromObject(object), object) })
	}
	s.wantAllocated(2)
}

// wantMoved waits until only the tenant's namespace shows the quota.
func (s *scene) wantMoved() {
	s.Helper()
	eventually(s, func() error {
		var buckets quotav1alpha1.AllowanceBucketList
		var effective quotav1alpha1.EffectiveResourceGrantList
		if err := errors.Join(s.List(s.Context(), &buckets), s.List(s.Context(), &effective)); err != nil {
			return err
		}
		var namespaces []string
		for i := range buckets.Items {
			namespaces = append(namespaces, buckets.Items[i].Namespace)
		}
		for i := range effective.Items {
			namespaces = append(namespaces, effective.Items[i].Namespace)
		}
		const types = 3 // two of acme, and one of globex
		if len(buckets.Items) != types || len(effective.Items) != types || slices.ContainsFunc(namespaces, func(n string) bool { return n != tenantNamespace }) {
			return fmt.Errorf("there are %d buckets and %d effective grants in namespaces %v, want %d of each, in %s", len(buckets.Items), len(effective.Items), namespaces, types, tenantNamespace)
		}
		return nil
	})
}

// asBursar talks to the server as the operator's own user, with all permissions.
func (s *scene) asBursar() client.Client {
	bursar, err := s.as(rest.ImpersonationConfig{UserName: operatorUser, Groups: []string{"system:masters"}})
	must(s, err)
	return bursar
}

func (s *scene) waitReady(name string) {
	s.Helper()
	eventually(s, func() error {
		policy := &quotav1alpha1.ClaimCreationPolicy{}
		if err := s.Get(s.Context(), client.ObjectKey{Name: name}, policy); err != nil {
			return err
		}
		for _, name := range []string{quotav1alpha1.ConditionReady, quotav1alpha1.ConditionAdopted} {
			c := apimeta.FindStatusCondition(policy.Status.Conditions, name)
			if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != policy.Generation {
				return fmt.Errorf("policy %s is not %s: %+v", policy.Name, name, policy.Status.Conditions)
			}
		}
		return nil
	})
}

// waitActive waits until a grant counts.
func (s *scene) waitActive(grant *quotav1alpha1.ResourceGrant) {
	s.Helper()
	eventually(s, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(grant), grant); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
			return fmt.Errorf("grant %s is not active: %+v", grant.Name, grant.Status.Conditions)
		}
		return nil
	})
}

// wantAllocated waits until the bucket shows that much in use.
func (s *scene) wantAllocated(want int64) {
	s.Helper()
	s.wantAllocatedOf(mapsType, want, want)
}

// wantAllocatedOf waits until the bucket of a resource type shows that much in use by so many claims.
func (s *scene) wantAllocatedOf(mapsType string, want, claims int64) {
	s.Helper()
	eventually(s, func() error {
		bucket := &quotav1alpha1.AllowanceBucket{}
		if err := s.Get(s.Context(), client.ObjectKey{Name: naming.Bucket(acme, mapsType, nil), Namespace: systemNamespace}, bucket); err != nil {
			return err
		}
		if bucket.Status.Allocated != want || int64(bucket.Status.ClaimCount) != claims {
			return fmt.Errorf("%d %s are allocated by %d claims, want %d by %d", bucket.Status.Allocated, mapsType, bucket.Status.ClaimCount, want, claims)
		}
		return nil
	})
}

// wantAsked checks that the operator used every permission in rules.
func wantAsked(t *testing.T, asked *requests, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if notAsked[verb+" "+resource] == "" && !askedFor(asked, group, resource, verb, names) {
						t.Errorf("the operator may %s %s of group %q, names %q, and does not", verb, resource, group, rule.ResourceNames)
					}
				}
			}
		}
	}
}

// askedFor reports whether the operator made a request for one of the names. A watch also needs the permission to list,
// if the API server cannot send the present objects as part of the watch.
func askedFor(asked *requests, group, resource, verb string, names []string) bool {
	for _, name := range names {
		if asked.have(group, resource, verb, name) || verb == "list" && asked.have(group, resource, "watch", name) {
			return true
		}
	}
	return false
}

func registration() *quotav1alpha1.ResourceRegistration {
	return &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "maps"},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: mapsType, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: platform.ConsumerType(),
			BaseUnit: "map", DisplayUnit: "map", UnitConversionFactor: 1,
			ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
		},
	}
}

func grant(amount int64) *quotav1alpha1.ResourceGrant {
	return &quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "base", Namespace: tenantNamespace},
		Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: acme, Allowances: []quotav1alpha1.Allowance{{
			ResourceType: mapsType, Buckets: []quotav1alpha1.Bucket{{Amount: amount}},
		}}},
	}
}

// policy charges acme for each ConfigMap of the tenant, with claims in that namespace.
func policy(name, claims string) *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: fmt.Sprintf("trigger.metadata.namespace == %q", tenantNamespace)}},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: name + "-{{.trigger.metadata.name}}", Namespace: claims},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: acme, Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: mapsType, Amount: 1}},
				},
			}},
		},
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: tenantNamespace}}
}

// ask makes the operator grant an approved request.
func (s *scene) ask() {
	s.Helper()
	request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: systemNamespace}}
	request.Spec = quotav1alpha1.QuotaRequestSpec{
		ConsumerRef: acme, Reason: "a release", Requests: []quotav1alpha1.RequestedQuota{{ResourceType: mapsType, Increase: new(int64(1))}},
	}
	s.create(request)
	s.waitAsked(request, quotav1alpha1.ReasonPending)
	decision := &quotav1alpha1.QuotaDecision{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: systemNamespace}}
	decision.Spec = quotav1alpha1.QuotaDecisionSpec{
		RequestRef: quotav1alpha1.DecidedRequestRef{Name: request.Name, UID: string(request.UID)}, Decision: quotav1alpha1.DecisionApprove,
	}
	api, err := s.as(rest.ImpersonationConfig{UserName: "ann", Groups: []string{"system:masters"}})
	if err != nil {
		s.Fatal(err)
	}
	if err := api.Create(s.Context(), decision); err != nil {
		s.Fatal(err)
	}
	s.waitAsked(request, quotav1alpha1.ReasonApproved)
}

func (s *scene) waitAsked(request *quotav1alpha1.QuotaRequest, reason string) {
	s.Helper()
	eventually(s, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		if c := apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved); c == nil || c.Reason != reason {
			return fmt.Errorf("the request is %+v, want %s", c, reason)
		}
		return nil
	})
}
