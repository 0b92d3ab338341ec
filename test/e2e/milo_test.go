package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

const (
	miloProjects = "milo.example.com/projects"
	miloStorage  = "milo.example.com/storage"
	miloBeta     = "features.milo.example.com/beta"
)

// milo has the declarations of testdata/milo, with the names and forms of the newest revision of Milo.
type milo struct{ *world }

func newMilo(t *testing.T) *milo {
	t.Helper()
	m := &milo{&world{T: t, ctx: t.Context(), name: "milo"}}
	m.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.name}})
	return m
}

// manifests returns the objects of a file.
func (m *milo) manifests(name string) []*unstructured.Unstructured {
	m.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "milo", name))
	must(m, err)
	var objects []*unstructured.Unstructured
	for documents := utilyaml.NewYAMLReader(newBufferedReader(content)); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		must(m, err)
		object := &unstructured.Unstructured{}
		must(m, yaml.Unmarshal(document, &object.Object))
		objects = append(objects, object)
	}
}

// apply creates the objects of a file. A field unknown to the API is an error.
func (m *milo) apply(name string) {
	m.Helper()
	strict := client.WithFieldValidation(admin, metav1.FieldValidationStrict)
	for _, object := range m.manifests(name) {
		if err := strict.Create(m.ctx, object); err != nil {
			m.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
		}
		m.cleanUp(object)
	}
}

func (m *milo) wantCondition(object client.Object, conditionType string, status metav1.ConditionStatus, reason, message string) {
	m.Helper()
	got := m.waitCondition(object, conditionType, status)
	if got.Reason != reason || message != "" && got.Message != message {
		m.Errorf("%T %s: %s is %s with reason %s: %s; want reason %s: %s", object, object.GetName(), conditionType, status, got.Reason, got.Message, reason, message)
	}
}

func (m *milo) wantQuota(resourceType string, want quotav1alpha1.AllowanceBucketStatus) {
	m.Helper()
	eventually(m, func() error {
		bucket, err := bucketOf(m.ctx, m.consumer(), resourceType)
		if err != nil {
			return err
		}
		s := bucket.Status
		if s.Limit != want.Limit || s.Allocated != want.Allocated || s.Available != want.Available || s.ClaimCount != want.ClaimCount || s.Feature != want.Feature {
			return fmt.Errorf("the bucket of %s has limit %d, allocated %d, available %d, claims %d, feature %q; want %+v",
				resourceType, s.Limit, s.Allocated, s.Available, s.ClaimCount, s.Feature, want)
		}
		return nil
	})
}

// Bursar accepts manifests in the form of Milo, with the same meaning.
func TestMiloManifests(t *testing.T) {
	t.Parallel()
	m := newMilo(t)
	m.apply("1-registrations.yaml")
	for _, name := range []string{"milo-projects-per-organization", "milo-storage-per-organization", "feature-milo-beta"} {
		m.wantCondition(&quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: name}}, "Active", metav1.ConditionTrue, "RegistrationActive",
			"The registration is active and resource grants and claims can now be created for this resource type.")
	}
	m.apply("2-grants.yaml")
	for _, name := range []string{"milo-base", "milo-beta"} {
		m.wantCondition(m.namedGrant(name), "Active", metav1.ConditionTrue, "GrantActive", "ResourceGrant is active")
	}
	m.wantQuota(miloProjects, quotav1alpha1.AllowanceBucketStatus{Limit: 3, Available: 3})
	m.wantQuota(miloBeta, quotav1alpha1.AllowanceBucketStatus{Limit: 1, Available: 1, Feature: quotav1alpha1.FeatureOn})
	m.apply("3-claim-policies.yaml")
	for _, name := range []string{"milo-maps", "milo-parents"} {
		m.wantCondition(&quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}, "Ready", metav1.ConditionTrue, "PolicyReady", "")
	}
	m.wantCondition(&quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "milo-disabled"}}, "Ready", metav1.ConditionFalse, "PolicyDisabled", "")
	m.wantCondition(&quotav1alpha1.GrantCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "milo-organizations"}}, "Ready", metav1.ConditionTrue, "PolicyReady", "")

	m.testGrantPolicy()
	m.testClaims()
	m.testClaimPolicies()
	m.testDisplay()
}

func (m *milo) namedGrant(name string) *quotav1alpha1.ResourceGrant {
	return &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: name}}
}

func (m *milo) namedClaim(name string) *quotav1alpha1.ResourceClaim {
	return &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: name}}
}

func (m *milo) testGrantPolicy() {
	m.Helper()
	organization := &unstructured.Unstructured{}
	organization.SetAPIVersion(platform.Group + "/v1")
	organization.SetKind(platform.Kind)
	organization.SetName("milo-auto")
	organization.SetLabels(map[string]string{"milo.example.com/tier": "gold"})
	m.mustCreate(organization)
	grant := m.namedGrant("auto-grant-milo-auto")
	m.wantCondition(grant, "Active", metav1.ConditionTrue, "GrantActive", "ResourceGrant is active")
	if got := grant.Annotations["example.com/for"]; got != "milo-auto/gold" || grant.Spec.ConsumerRef.Name != "milo-auto" {
		m.Errorf("the grant is for %q, %+v", got, grant.Spec.ConsumerRef)
	}
}

func (m *milo) testClaims() {
	m.Helper()
	m.apply("4-claims.yaml")
	m.wantCondition(m.namedClaim("milo-several"), "Granted", metav1.ConditionTrue, "QuotaAvailable", "All 2 resource requests have been granted")
	alone := m.namedClaim("milo-without-object")
	m.wantCondition(alone, "Granted", metav1.ConditionTrue, "QuotaAvailable", "All 1 resource requests have been granted")
	m.wantCondition(m.namedClaim("milo-too-much"), "Granted", metav1.ConditionFalse, "QuotaExceeded", "")
	m.wantQuota(miloBeta, quotav1alpha1.AllowanceBucketStatus{Limit: 1, Allocated: 7, Available: 1, ClaimCount: 1, Feature: quotav1alpha1.FeatureOn})
	m.wantQuota(miloStorage, quotav1alpha1.AllowanceBucketStatus{Limit: 4096, Allocated: 1024, Available: 3072, ClaimCount: 1})

	changed := alone.DeepCopy()
	changed.Spec.ResourceRef = quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: "x"}
	if err := admin.Update(m.ctx, changed); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.resourceRef is immutable") {
		m.Errorf("a claim without an object got one: %v", err)
	}
	m.mustDelete(alone)
	m.wantQuota(miloStorage, quotav1alpha1.AllowanceBucketStatus{Limit: 4096, Available: 4096})
	m.mustDelete(m.namedClaim("milo-too-much"))
}

func (m *milo) testClaimPolicies() {
	m.Helper()
	object := m.configMap("a")
	object.Labels = map[string]string{"organization": m.name}
	m.mustCreate(object)
	claim := m.namedClaim("map-a")
	m.wantCondition(claim, "Granted", metav1.ConditionTrue, "QuotaAvailable", "All 2 resource requests have been granted")
	if got := claim.Annotations["kubernetes.io/description"]; !strings.HasSuffix(got, " for a") || claim.Labels["quota.miloapis.com/policy"] != "milo-maps" {
		m.Errorf("the claim has the annotations %v and the labels %v", claim.Annotations, claim.Labels)
	}

	who := rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:masters"}}
	if err := actingAs(m.T, who).Create(m.ctx, m.configMap("of-parent-none")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "iam.miloapis.com/parent-type") {
		m.Errorf("a user without a parent: %v", err)
	}
	who.Extra = map[string][]string{
		"iam.miloapis.com/parent-api-group": {platform.Group}, "iam.miloapis.com/parent-type": {platform.Kind}, "iam.miloapis.com/parent-name": {m.name},
	}
	paid := m.configMap("of-parent")
	must(m, actingAs(m.T, who).Create(m.ctx, paid))
	m.cleanUp(paid)
	m.wantCondition(m.namedClaim("parent-of-parent"), "Granted", metav1.ConditionTrue, "QuotaAvailable", "All 1 resource requests have been granted")
	m.wantQuota(miloProjects, quotav1alpha1.AllowanceBucketStatus{Limit: 3, Allocated: 3, ClaimCount: 3})

	// The limit of the projects denies; the feature in the same claim does not.
	another := m.configMap("b")
	another.Labels = map[string]string{"organization": m.name}
	if text := m.wantExceeded(another); strings.Contains(text, miloBeta) {
		m.Errorf("a feature is a reason of the denial: %s", text)
	}
	m.mustDelete(m.namedGrant("milo-beta"))
	m.wantQuota(miloBeta, quotav1alpha1.AllowanceBucketStatus{Allocated: 8, ClaimCount: 2, Feature: quotav1alpha1.FeatureOff})
	m.mustDelete(object)
	eventually(m, func() error { return admin.Create(m.ctx, another) }) // the feature is off, and Bursar counts it all the same
	m.cleanUp(another)
	m.wantQuota(miloBeta, quotav1alpha1.AllowanceBucketStatus{Allocated: 8, ClaimCount: 2, Feature: quotav1alpha1.FeatureOff})
}

// The annotations and the label of a registration are in the consumer's own view.
func (m *milo) testDisplay() {
	m.Helper()
	eventually(m, func() error { // Bursar writes the view after the buckets
		var list quotav1alpha1.EffectiveResourceGrantList
		if err := admin.List(m.ctx, &list, client.MatchingFields{"spec.consumerRef.name": m.name}); err != nil {
			return err
		}
		shown := map[string]*quotav1alpha1.DisplayedQuota{}
		for i := range list.Items {
			shown[list.Items[i].Spec.ResourceType] = list.Items[i].Status.Display
		}
		if d := shown[miloProjects]; d == nil || d.Name != "Projects" || d.Description != "Projects of an organization" || d.Owner != "projects.milo.example.com" {
			return fmt.Errorf("projects are shown as %+v", d)
		}
		if d := shown[miloBeta]; d == nil || d.TotalLimit != "Off" || d.Description != "Shows what is in beta" || d.Percent != "" {
			return fmt.Errorf("the feature is shown as %+v", d)
		}
		return nil
	})
}

// Errors contain the texts that tests of platforms look for.
func TestMiloRejections(t *testing.T) {
	t.Parallel()
	m := &milo{newWorld(t)}
	valid := func(name string) *quotav1alpha1.ResourceRegistration {
		r := m.registration(m.name + "/" + name)
		r.Spec.ConsumerType, r.Spec.ConsumerTypeRef = r.Spec.ConsumerTypeRef, quotav1alpha1.ConsumerTypeRef{}
		return r
	}
	stored := valid("stored")
	m.mustCreate(stored)
	twice := valid("twice")
	twice.Spec.ClaimingResources = append(twice.Spec.ClaimingResources, twice.Spec.ClaimingResources[0])
	same := valid("same")
	same.Spec.ResourceType = stored.Spec.ResourceType
	other := valid("other")
	other.Spec.ConsumerTypeRef = quotav1alpha1.ConsumerTypeRef{APIGroup: "other.example.com", Kind: "Other"}
	none := valid("none")
	none.Spec.ConsumerType = quotav1alpha1.ConsumerTypeRef{}
	unknown := valid("unknown")
	unknown.Spec.Type = "Nope"
	for want, object := range map[string]client.Object{
		"duplicate claiming resource":   twice,
		"is already registered":         same,
		"are two names of one field":    other,
		"spec.consumerType is required": none,
		"spec.type: Unsupported value":  unknown,
	} {
		if err := admin.Create(m.ctx, object); err == nil || !strings.Contains(err.Error(), want) {
			m.Errorf("create %s: got %v, want an error with %q", object.GetName(), err, want)
		}
	}
	for want, patch := range map[string]string{
		"spec.consumerType is immutable": `{"spec":{"consumerType":{"kind":"Other"}}}`,
		"spec.resourceType is immutable": `{"spec":{"resourceType":"other"}}`,
		"spec.type is immutable":         `{"spec":{"type":"Feature"}}`,
	} {
		err := admin.Patch(m.ctx, stored.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
		if err == nil || !strings.Contains(err.Error(), want) {
			m.Errorf("patch %s: got %v, want an error with %q", patch, err, want)
		}
	}
	// The earlier name may stand beside the newer one, or instead of it.
	must(t, admin.Patch(m.ctx, stored, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil,
		`{"spec":{"consumerTypeRef":{"apiGroup":%q,"kind":%q},"consumerType":null}}`, platform.Group, platform.Kind))))
	m.waitCondition(stored, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
}

func newBufferedReader(content []byte) *bufio.Reader {
	return bufio.NewReader(bytes.NewReader(content))
}
