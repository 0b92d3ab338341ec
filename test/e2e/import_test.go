package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/importer"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/guide"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// TestGuideToMigrate imports the limits of a ResourceQuota, enforces them and goes back, by the guide.
func TestGuideToMigrate(t *testing.T) {
	t.Parallel()
	if texts := guide.Follow(t, "docs/tasks/migrate.md", start(t, standalone.Options{}).Kubeconfig); texts != 4 {
		t.Errorf("the guide shows %d outputs, want 4", texts)
	}
}

// formers are the other systems. Each has two namespaces with a limit of 2 Secrets together, and one without. The
// report of an import has these parts.
var formers = map[string]struct{ namespaces, report []string }{
	"clusterresourcequota": {[]string{"crq-a", "crq-b", "crq-other"}, []string{
		"ClusterResourceQuota jane: openshift.io/imagestreams: the server has no resource imagestreams.image.openshift.io",
	}},
	"hierarchicalresourcequota": {[]string{"tree-a", "tree-b", "tree-other"}, []string{"labels tree.hnc.x-k8s.io/depth: HNC keeps them"}},
	"capsule": {[]string{"oil-a", "oil-b", "oil-other"}, []string{
		"GlobalResourceQuota oil-shared   count/configmaps", "Tenant oil                       namespaces", "Tenant oil: limitRanges: ",
		"ResourcePool oil: ", "\n- CustomQuota oil-a/disks: ", "\n- GlobalCustomQuota disks: ", "the server has no resource mysqls.databases.acme.corp",
	}},
	"openmcp": {[]string{"mcp-a", "mcp-a", "mcp-other"}, []string{
		"QuotaIncrease mcp-a/more: its effect is part of the grant (count/secrets: 2)", "QuotaIncrease mcp-a/overshadowed: it has no effect now",
	}},
}

// TestImport imports each of the other systems. They are fixtures: kinds with the fields of the other system, and what
// its controller leaves on a cluster, without this controller.
func TestImport(t *testing.T) {
	t.Parallel()
	s := start(t, standalone.Options{})
	for from, former := range formers {
		t.Run(from, func(t *testing.T) { testImport(t, s, from, former.namespaces, former.report) })
	}
	testGenerated(t, s)
}

// testGenerated imports ResourceQuotas beside the other systems. Those made by a system for its own limits stay out.
func testGenerated(t *testing.T, s *server.Server) {
	report, err := importer.Run(t.Context(), importer.Options{Config: s.Config, From: "resourcequota", SystemNamespace: config.DefaultSystemNamespace, DryRun: true})
	must(t, err)
	got := map[string][]string{}
	for _, each := range report.Plan.TakenOver {
		got["taken over"] = append(got["taken over"], each.From)
	}
	for _, note := range report.Plan.Notes {
		if _, system, isMade := strings.Cut(note.Why, "--from "); isMade {
			got[system] = append(got[system], note.What)
		}
	}
	want := map[string][]string{
		"taken over":                {"ResourceQuota oil-a/team", "ResourceQuota oil-b/replicated"},
		"hierarchicalresourcequota": {"ResourceQuota tree-a/local-impl-hrq.hnc.x-k8s.io", "ResourceQuota tree-b/local-impl-hrq.hnc.x-k8s.io"},
		"capsule": {"ResourceQuota oil-a/capsule-global-quota-bc036105aa5fb79cab17", "ResourceQuota oil-a/capsule-oil-0",
			"ResourceQuota oil-a/capsule-pool-oil", "ResourceQuota oil-b/capsule-oil-0"},
		"openmcp": {"ResourceQuota mcp-a/projects"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("an import of ResourceQuotas (-want +got):\n%s", diff)
	}
}

func testImport(t *testing.T, s *server.Server, from string, namespaces, parts []string) {
	fixture(t, s, filepath.Join("testdata", "import", from+".yaml"))
	secret := func(namespace, name string) error {
		return s.Admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	for i, namespace := range []string{namespaces[0], namespaces[1], namespaces[2]} {
		eventually(t, func() error { return secret(namespace, fmt.Sprint("before-", i)) })
	}
	options := importer.Options{Config: s.Config, From: from, SystemNamespace: config.DefaultSystemNamespace, DryRun: true}
	testDryRun(t, s, options, parts)
	options.DryRun = false
	for range 2 { // a second import changes nothing
		_, err := importer.Run(t.Context(), options)
		must(t, err)
	}
	eventually(t, func() error { return charges(t, s, from, 2) })
	if from != "openmcp" { // its ResourceQuota stays in effect
		must(t, secret(namespaces[1], "audited"))
		must(t, s.Admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[1], Name: "audited"}}))
		eventually(t, func() error { return charges(t, s, from, 2) })
	}
	if from == "capsule" {
		testLateNamespace(t, s, options)
	}

	_, err := importer.SetMode(t.Context(), options, quotav1alpha1.EnforcementModeEnforce)
	must(t, err)
	_, err = importer.Run(t.Context(), options) // keeps the mode
	must(t, err)
	eventually(t, func() error {
		denied := secret(namespaces[1], "denied")
		if denied == nil {
			return errors.Join(errors.New("it is not denied yet"), s.Admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[1], Name: "denied"}}))
		}
		// Until the policies enforce, the ResourceQuota of openmcp denies it.
		if !apierrors.IsForbidden(denied) || !strings.Contains(denied.Error(), "QuotaConsumer") {
			return fmt.Errorf("got %w, want a denial by Bursar", denied)
		}
		return nil
	})
	must(t, secret(namespaces[2], "free"))

	removed, err := importer.Remove(t.Context(), options)
	must(t, err)
	if removed.Counts["resourceclaims.quota.miloapis.com"] < 2 {
		t.Errorf("removed %+v", removed.Counts)
	}
	if policies := imported(t, s, from); len(policies) != 0 {
		t.Errorf("%d policies are left", len(policies))
	}
	if from == "openmcp" {
		waitCounted(t, s, namespaces[1])
	}
	if err := secret(namespaces[1], "after"); (err == nil) != (from != "openmcp") {
		t.Errorf("after the removal a create got %v", err)
	}
}

// waitCounted waits until the ResourceQuota of openmcp counts both Secrets. Its controller may have counted before it
// knew of the second.
func waitCounted(t *testing.T, s *server.Server, namespace string) {
	t.Helper()
	eventually(t, func() error {
		quota := &corev1.ResourceQuota{}
		if err := s.Admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "projects"}, quota); err != nil {
			return err
		}
		if used := quota.Status.Used["count/secrets"]; used.Value() != 2 {
			return fmt.Errorf("the ResourceQuota counts %s Secrets, want 2", used.String())
		}
		return nil
	})
}

// testDryRun checks that a dry run reports a full limit and all parts, and writes nothing.
func testDryRun(t *testing.T, s *server.Server, options importer.Options, parts []string) {
	t.Helper()
	report, err := importer.Run(t.Context(), options)
	must(t, err)
	if policies := imported(t, s, options.From); len(policies) != 0 {
		t.Errorf("a dry run made %d policies", len(policies))
	}
	var text strings.Builder
	must(t, report.Print(&text, ""))
	isFull := false
	for _, short := range report.Short {
		isFull = isFull || strings.HasSuffix(short.ResourceType, "/secrets") && short.Used == 2 && short.Limit == 2
	}
	if !isFull {
		t.Errorf("the report does not say that the limit is reached:\n%s", &text)
	}
	for _, part := range parts {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the report does not say %q:\n%s", part, &text)
		}
	}
}

// testLateNamespace gives a namespace with a Secret to a tenant. The namespace counts from then on, and its objects do
// after a further import.
func testLateNamespace(t *testing.T, s *server.Server, options importer.Options) {
	t.Helper()
	must(t, s.Admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "oil-late", Name: "early"}}))
	must(t, s.Admin.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "oil-late"}},
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"capsule.clastix.io/tenant":"oil"}}}`))))
	eventually(t, func() error { return charged(t, s, "capsule", "/namespaces", 3) })
	_, err := importer.Run(t.Context(), options)
	must(t, err)
	eventually(t, func() error { return charges(t, s, "capsule", 3) })
}

// charges returns an error unless the policies of an import are ready, have adopted existing objects and charge for so
// many Secrets.
func charges(t testing.TB, s *server.Server, from string, want int64) error {
	for _, p := range imported(t, s, from) {
		if !apimeta.IsStatusConditionTrue(p.Status.Conditions, quotav1alpha1.ConditionReady) || p.Status.Adoption == nil || p.Status.Adoption.State != quotav1alpha1.AdoptionComplete {
			return fmt.Errorf("policy %s is not ready: %+v", p.Name, p.Status)
		}
		if p.Spec.EnforcementMode != quotav1alpha1.EnforcementModeAudit {
			return fmt.Errorf("policy %s has the mode %s", p.Name, p.Spec.EnforcementMode)
		}
	}
	return charged(t, s, from, "/secrets", want)
}

// charged returns an error unless the claims of an import have so many of the objects in a resource type.
func charged(t testing.TB, s *server.Server, from, suffix string, want int64) error {
	var claims quotav1alpha1.ResourceClaimList
	if err := s.Admin.List(t.Context(), &claims, client.MatchingLabels{quotav1alpha1.LabelImportedFrom: from}); err != nil {
		return err
	}
	sum := int64(0)
	for i := range claims.Items {
		for _, request := range claims.Items[i].Spec.Requests {
			if strings.HasSuffix(request.ResourceType, suffix) {
				sum += request.Amount
			}
		}
	}
	if sum != want {
		return fmt.Errorf("%d of %s are charged, want %d", sum, suffix, want)
	}
	return nil
}

func imported(t testing.TB, s *server.Server, from string) []quotav1alpha1.ClaimCreationPolicy {
	var list quotav1alpha1.ClaimCreationPolicyList
	must(t, s.Admin.List(t.Context(), &list, client.MatchingLabels{quotav1alpha1.LabelImportedFrom: from}))
	return list.Items
}

// fixture creates the objects of a file, with their statuses. It creates instances of kinds in the file once the API
// server serves the kinds. A field unknown to the kind is an error.
func fixture(t *testing.T, s *server.Server, path string) {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer func() { must(t, file.Close()) }()
	objects, err := dynamic.NewForConfig(s.Config)
	must(t, err)
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		kind := object.GroupVersionKind()
		api := objects.Resource(kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")).Namespace(object.GetNamespace())
		eventually(t, func() error {
			created, err := api.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err == nil {
				object.SetResourceVersion(created.GetResourceVersion())
			}
			return err
		})
		if object.Object["status"] != nil {
			_, err := api.UpdateStatus(t.Context(), object, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
			must(t, client.IgnoreNotFound(err)) // a kind without this subresource has it from the create
		}
		if kind.Kind == "ResourceQuota" { // the quota controller counts objects from then on
			eventually(t, func() error {
				quota := &corev1.ResourceQuota{}
				if err := s.Admin.Get(t.Context(), client.ObjectKeyFromObject(object), quota); err != nil || len(quota.Status.Hard) > 0 {
					return err
				}
				return errors.New("the ResourceQuota is not counted yet")
			})
		}
	}
}

// TestImportFromMilo copies declarations for Milo from another server, with the same kinds. A removal leaves nothing.
func TestImportFromMilo(t *testing.T) {
	t.Parallel()
	from, to := startTwo(t)
	declareEverything(t, from.Admin)
	o := importer.Options{Config: to.Config, SourceConfig: from.Config, From: "milo", SystemNamespace: config.DefaultSystemNamespace}
	report, err := importer.Run(t.Context(), o)
	must(t, err)
	if len(report.Plan.Policies) != 1 || len(report.Plan.Grants) == 0 {
		t.Errorf("the plan is %+v", report.Plan)
	}
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "configmap"}}
	eventually(t, func() error { return platform.IsReady(t.Context(), to.Admin, policy) })
	if policy.Spec.EnforcementMode != quotav1alpha1.EnforcementModeAudit {
		t.Errorf("the policy has the mode %s", policy.Spec.EnforcementMode)
	}
	must(t, to.Admin.Create(t.Context(), platform.Map(1)))
	claims := func() (all quotav1alpha1.ResourceClaimList) {
		must(t, to.Admin.List(t.Context(), &all))
		return all
	}
	eventually(t, func() error {
		if all := claims(); len(all.Items) != 1 {
			return fmt.Errorf("there are %d claims", len(all.Items))
		}
		return nil
	})

	// Milo no longer has the policy. It stays while it enforces.
	_, err = importer.SetMode(t.Context(), o, quotav1alpha1.EnforcementModeEnforce)
	must(t, err)
	must(t, from.Admin.Delete(t.Context(), &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "configmap"}}))
	report, err = importer.Run(t.Context(), o)
	must(t, err)
	if len(report.Plan.Kept) != 1 || len(report.Plan.Deleted) != 0 {
		t.Errorf("without the policy, an import keeps %+v and deletes %+v", report.Plan.Kept, report.Plan.Deleted)
	}
	must(t, platform.IsReady(t.Context(), to.Admin, policy))

	removed, err := importer.Remove(t.Context(), o)
	must(t, err)
	if all := claims(); len(all.Items) != 0 || removed.Counts["resourceclaims.quota.miloapis.com"] != 1 {
		t.Errorf("the removal deletes %v, and leaves %d claims", removed.Counts, len(all.Items))
	}
}

// TestImportFromMiloInPlace proves that a removal keeps objects from before the import, in their mode.
func TestImportFromMiloInPlace(t *testing.T) {
	t.Parallel()
	server, _ := startTwo(t)
	declareEverything(t, server.Admin)
	o := importer.Options{Config: server.Config, From: "milo", SystemNamespace: config.DefaultSystemNamespace}
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	wantMode := func(when string, mode quotav1alpha1.EnforcementMode, from string) {
		t.Helper()
		must(t, server.Admin.Get(t.Context(), client.ObjectKey{Name: "configmap"}, policy))
		if policy.Labels[quotav1alpha1.LabelImportedFrom] != from || policy.Spec.EnforcementMode != mode {
			t.Errorf("%s the policy has the labels %v and the mode %s", when, policy.Labels, policy.Spec.EnforcementMode)
		}
	}
	if _, err := importer.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "configmap") {
		t.Errorf("an import that would stop enforcement got %v", err)
	}
	wantMode("without --in-place", quotav1alpha1.EnforcementModeEnforce, "")
	o.InPlace = true
	for range 2 { // a second import keeps them as well
		_, err := importer.Run(t.Context(), o)
		must(t, err)
	}
	wantMode("after the import", quotav1alpha1.EnforcementModeAudit, "milo")
	removed, err := importer.Remove(t.Context(), o)
	must(t, err)
	if len(removed.Resources) != 0 || removed.InPlace == 0 {
		t.Errorf("the removal deletes %v and keeps %d, want it to keep all", removed.Counts, removed.InPlace)
	}
	wantMode("after the removal", quotav1alpha1.EnforcementModeEnforce, "")
	if policy.Annotations[quotav1alpha1.AnnotationImportedInPlace] != "" || policy.Annotations[quotav1alpha1.AnnotationImportedMode] != "" {
		t.Errorf("after the removal the policy has the annotations %v", policy.Annotations)
	}
}
