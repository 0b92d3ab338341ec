package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/test/platform"
)

// crew is a kind of consumers and of protected objects beside those of the platform.
var crew = schema.GroupVersionKind{Group: "queries.example.com", Version: "v1", Kind: "Crew"}

// queriedWorld is a world with several objects of every kind, for queries to distinguish.
type queriedWorld struct {
	*world
	other, team        quotav1alpha1.ConsumerRef
	otherType, perCrew string
	made               map[string]string // short names of the objects, for queries to find
}

// label gives an object the label recommended in the reference.
func label(object client.Object, key, value string) {
	object.SetLabels(map[string]string{quotav1alpha1.GroupName + "/" + key: value})
}

func newQueriedWorld(t *testing.T) *queriedWorld {
	t.Helper()
	w := &queriedWorld{world: newWorld(t), made: map[string]string{}}
	w.other, w.team = platform.Consumer(w.name+"-other"), quotav1alpha1.ConsumerRef{APIGroup: crew.Group, Kind: crew.Kind, Name: w.name}
	w.otherType, w.perCrew = w.name+"/others", w.name+"/crews"
	w.mustCreate(platform.Definition(crew.Group, crew.Kind, "crews"))
	w.register()
	w.giveAll()
	w.writePolicies()
	w.claimAll()
	return w
}

func (w *queriedWorld) register() {
	w.made[registrationName(w.resourceType())] = "configmaps"
	others, crews := w.registration(w.otherType), w.registration(w.perCrew)
	label(others, "resource-kind", "Other")
	crews.Spec.ConsumerTypeRef = quotav1alpha1.ConsumerTypeRef{APIGroup: crew.Group, Kind: crew.Kind}
	crews.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{{APIGroup: crew.Group, Kind: crew.Kind}}
	for short, registration := range map[string]*quotav1alpha1.ResourceRegistration{"others": others, "crews": crews} {
		w.made[registration.Name] = short
		w.mustCreate(registration)
		w.waitCondition(registration, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	}
}

func (w *queriedWorld) giveAll() {
	give := func(name string, consumer quotav1alpha1.ConsumerRef, source string, resourceTypes ...string) {
		grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + name, Namespace: w.name}}
		label(grant, "source", source)
		grant.Spec.ConsumerRef = consumer
		for _, resourceType := range resourceTypes {
			grant.Spec.Allowances = append(grant.Spec.Allowances, quotav1alpha1.Allowance{
				ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: 5}},
			})
			w.made[naming.Bucket(consumer, resourceType, nil)] = name + " " + resourceType
		}
		w.made[grant.Name] = name
		w.mustCreate(grant)
		w.waitCondition(grant, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	}
	give("own", w.consumer(), "manual", w.resourceType(), w.otherType)
	give("other", w.other, "sales", w.resourceType())
	give("crew", w.team, "sales", w.perCrew)
}

func (w *queriedWorld) writePolicies() {
	enabled, off, crews := w.newPolicy(w.name), w.newPolicy(w.name+"-off"), w.newPolicy(w.name+"-crews")
	label(enabled, "target-kind", "ConfigMap")
	enabled.Spec.Target.ResourceClaimTemplate.Metadata.Labels = map[string]string{"example.com/resource-type": "configmaps"}
	off.Spec.Trigger.Resource.Kind = "Secret"
	off.Spec.Enabled = new(bool)
	label(off, "environment", "production")
	crews.Spec.Trigger = quotav1alpha1.ClaimTrigger{Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: crew.GroupVersion().String(), Kind: crew.Kind}}
	crews.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef = w.team
	crews.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = w.perCrew
	for short, policy := range map[string]*quotav1alpha1.ClaimCreationPolicy{"enabled": enabled, "off": off, "crews": crews} {
		w.made[policy.Name] = short
		w.mustCreate(policy)
	}
	w.waitCondition(enabled, quotav1alpha1.ConditionReady, metav1.ConditionTrue)
	w.waitCondition(crews, quotav1alpha1.ConditionReady, metav1.ConditionTrue)

	for short, trigger := range map[string]quotav1alpha1.GrantTriggerResource{
		"maps": {APIVersion: "v1", Kind: "ConfigMap"}, "crew": {APIVersion: crew.GroupVersion().String(), Kind: crew.Kind},
	} {
		policy := &quotav1alpha1.GrantCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + short}}
		label(policy, "trigger-kind", trigger.Kind)
		policy.Spec.Trigger.Resource = trigger
		policy.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: "false"}}
		policy.Spec.Target.ResourceGrantTemplate.Spec = quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: w.consumer(),
			Allowances:  []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 1}}}},
		}
		if short == "crew" {
			policy.Spec.Target.ParentContext = &quotav1alpha1.ParentContext{APIGroup: "parents.example.com", Kind: "Parent", NameExpression: "'any'"}
		}
		w.made[policy.Name] = short
		w.mustCreate(policy)
	}
}

func (w *queriedWorld) claimAll() {
	direct := func(short string, consumer quotav1alpha1.ConsumerRef, ref quotav1alpha1.UnversionedObjectReference) {
		claim := w.claim(w.name+"-"+short, 1)
		claim.Spec.ConsumerRef, claim.Spec.ResourceRef = consumer, ref
		w.made[claim.Name] = short
		w.mustCreate(claim)
	}
	direct("own", w.consumer(), quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: "own", Namespace: w.name})
	direct("other", w.other, quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: "other", Namespace: w.name})
	direct("crew", w.team, quotav1alpha1.UnversionedObjectReference{APIGroup: "apps", Kind: "Deployment", Name: "own", Namespace: "elsewhere"})
	w.made[w.name+"-paid"] = "paid"
	w.mustCreate(w.configMap("paid"))
	w.claimOf("paid")

	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(crew)
	object.SetName("first")
	w.mustCreate(object)
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-crews-first", Namespace: config.DefaultSystemNamespace}}
	w.made[claim.Name] = "of a crew"
	w.waitCondition(claim, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	if owners := claim.OwnerReferences; len(owners) != 1 || owners[0].UID != object.GetUID() {
		w.Errorf("the claim of a cluster-scoped object has the owners %+v, want the object", owners)
	}
}

// found returns, sorted, the short names of the world's objects in the result of a query.
func (w *queriedWorld) found(list client.ObjectList, query client.ListOption) ([]string, error) {
	if err := admin.List(w.ctx, list, query); err != nil {
		return nil, err
	}
	var found []string
	err := apimeta.EachListItem(list, func(object runtime.Object) error {
		accessor, err := apimeta.Accessor(object)
		if short, made := w.made[accessor.GetName()]; made {
			found = append(found, short)
		}
		return err
	})
	slices.Sort(found)
	return found, err
}

// Every selectable field and every label of the reference finds exactly the right objects.
func TestQueriesOfTheReference(t *testing.T) {
	t.Parallel()
	w := newQueriedWorld(t)
	fields := func(pairs ...string) client.ListOption { return client.MatchingFields(pairsOf(pairs)) }
	labels := func(pairs ...string) client.ListOption {
		marked := client.MatchingLabels{}
		for key, value := range pairsOf(pairs) {
			marked[quotav1alpha1.GroupName+"/"+key] = value
		}
		return marked
	}
	registrations := func() client.ObjectList { return &quotav1alpha1.ResourceRegistrationList{} }
	grants := func() client.ObjectList { return &quotav1alpha1.ResourceGrantList{} }
	claims := func() client.ObjectList { return &quotav1alpha1.ResourceClaimList{} }
	buckets := func() client.ObjectList { return &quotav1alpha1.AllowanceBucketList{} }
	claimPolicies := func() client.ObjectList { return &quotav1alpha1.ClaimCreationPolicyList{} }
	grantPolicies := func() client.ObjectList { return &quotav1alpha1.GrantCreationPolicyList{} }
	mapsOf := func(short string) string { return short + " " + w.resourceType() }
	tests := map[string]struct {
		list  func() client.ObjectList
		query client.ListOption
		want  []string
	}{
		"registrations by consumer kind":  {registrations, fields("spec.consumerTypeRef.kind", platform.Kind), []string{"configmaps", "others"}},
		"registrations by consumer group": {registrations, fields("spec.consumerTypeRef.apiGroup", crew.Group), []string{"crews"}},
		"registrations by type":           {registrations, fields("spec.resourceType", w.otherType), []string{"others"}},
		"registrations by label":          {registrations, labels("resource-kind", "Other"), []string{"others"}},

		"grants by consumer kind": {grants, fields("spec.consumerRef.kind", platform.Kind), []string{"other", "own"}},
		"grants by consumer name": {grants, fields("spec.consumerRef.name", w.name), []string{"crew", "own"}},
		"grants of a consumer":    {grants, fields("spec.consumerRef.kind", platform.Kind, "spec.consumerRef.name", w.name), []string{"own"}},
		"grants by source":        {grants, labels("source", "sales"), []string{"crew", "other"}},

		"claims by consumer kind":  {claims, fields("spec.consumerRef.kind", crew.Kind), []string{"crew", "of a crew"}},
		"claims by consumer name":  {claims, fields("spec.consumerRef.name", w.name), []string{"crew", "of a crew", "own", "paid"}},
		"claims of a consumer":     {claims, fields("spec.consumerRef.kind", platform.Kind, "spec.consumerRef.name", w.name), []string{"own", "paid"}},
		"claims by object group":   {claims, fields("spec.resourceRef.apiGroup", "apps"), []string{"crew"}},
		"claims by object kind":    {claims, fields("spec.resourceRef.kind", "ConfigMap"), []string{"other", "own", "paid"}},
		"claims by object name":    {claims, fields("spec.resourceRef.name", "own"), []string{"crew", "own"}},
		"claims by namespace":      {claims, fields("spec.resourceRef.namespace", "elsewhere"), []string{"crew"}},
		"claims for one object":    {claims, fields("spec.resourceRef.kind", "ConfigMap", "spec.resourceRef.name", "paid", "spec.resourceRef.namespace", w.name), []string{"paid"}},
		"claims of policies":       {claims, labels("auto-created", "true"), []string{"of a crew", "paid"}},
		"claims of a policy":       {claims, labels("policy", w.name), []string{"paid"}},
		"claims for a core kind":   {claims, labels("gvk", "v1.ConfigMap"), []string{"paid"}},
		"claims for a custom kind": {claims, labels("gvk", crew.Group+"."+crew.Version+"."+crew.Kind), []string{"of a crew"}},
		"claims by own labels":     {claims, client.MatchingLabels{"example.com/resource-type": "configmaps"}, []string{"paid"}},

		"buckets by consumer kind": {buckets, fields("spec.consumerRef.kind", crew.Kind), []string{"crew " + w.perCrew}},
		"buckets by consumer name": {buckets, fields("spec.consumerRef.name", w.other.Name), []string{mapsOf("other")}},
		"buckets of a consumer":    {buckets, labels("consumer-kind", platform.Kind, "consumer-name", w.name), []string{mapsOf("own"), "own " + w.otherType}},
		"buckets by type":          {buckets, fields("spec.resourceType", w.resourceType()), []string{mapsOf("other"), mapsOf("own")}},
		"one bucket":               {buckets, fields("spec.consumerRef.name", w.name, "spec.resourceType", w.resourceType()), []string{mapsOf("own")}},

		"claim policies by kind":        {claimPolicies, fields("spec.trigger.resource.kind", "ConfigMap"), []string{"enabled"}},
		"claim policies by version":     {claimPolicies, fields("spec.trigger.resource.apiVersion", "v1"), []string{"enabled", "off"}},
		"claim policies that are on":    {claimPolicies, fields("spec.enabled", "true"), []string{"crews", "enabled"}},
		"claim policies that are off":   {claimPolicies, fields("spec.enabled", "false"), []string{"off"}},
		"claim policies by target":      {claimPolicies, labels("target-kind", "ConfigMap"), []string{"enabled"}},
		"claim policies by environment": {claimPolicies, labels("environment", "production"), []string{"off"}},

		"grant policies by kind":         {grantPolicies, fields("spec.trigger.resource.kind", crew.Kind), []string{"crew"}},
		"grant policies by version":      {grantPolicies, fields("spec.trigger.resource.apiVersion", "v1"), []string{"maps"}},
		"grant policies that are on":     {grantPolicies, fields("spec.enabled", "true"), []string{"crew", "maps"}},
		"grant policies by parent kind":  {grantPolicies, fields("spec.target.parentContext.kind", "Parent"), []string{"crew"}},
		"grant policies by parent group": {grantPolicies, fields("spec.target.parentContext.apiGroup", "parents.example.com"), []string{"crew"}},
		"grant policies by label":        {grantPolicies, labels("trigger-kind", "ConfigMap"), []string{"maps"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			eventually(t, func() error {
				got, err := w.found(tt.list(), tt.query)
				if diff := cmp.Diff(tt.want, got); err == nil && diff != "" {
					err = errors.New("found (-want +got):\n" + diff)
				}
				return err
			})
		})
	}
}

// pairsOf makes a map of keys and values in turn.
func pairsOf(pairs []string) map[string]string {
	made := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		made[pair[0]] = pair[1]
	}
	return made
}

// The reference mentions one more query, but the API server does not have it for custom resources.
func TestQueriesThatAreNotServed(t *testing.T) {
	t.Parallel()
	for field, list := range map[string]client.ObjectList{
		"status.conditions": &quotav1alpha1.ResourceClaimList{},
	} {
		err := admin.List(t.Context(), list, client.MatchingFields{field: "true"}, client.InNamespace(corev1.NamespaceDefault))
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "field label not supported") {
			t.Errorf("by %s: got %v, want to be told that there is no such query", field, err)
		}
	}
}
