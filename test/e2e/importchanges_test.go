package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/importer"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
)

// TestImportOfRemovedFields removes fields on the server of the former system. The next import removes them here, and
// leaves the label of an administrator.
func TestImportOfRemovedFields(t *testing.T) {
	t.Parallel()
	from, to := startTwo(t)
	declareEverything(t, from.Admin)
	o := importer.Options{Config: to.Config, SourceConfig: from.Config, From: "milo", SystemNamespace: config.DefaultSystemNamespace}
	run := func() {
		t.Helper()
		_, err := importer.Run(t.Context(), o)
		must(t, err)
	}
	policy, registration := &quotav1alpha1.ClaimCreationPolicy{}, &quotav1alpha1.ResourceRegistration{}
	read := func(api client.Client) {
		t.Helper()
		must(t, api.Get(t.Context(), client.ObjectKey{Name: "configmap"}, policy))
		must(t, api.Get(t.Context(), client.ObjectKey{Name: "maps"}, registration))
	}
	change := func(api client.Client, object client.Object, change func()) {
		t.Helper()
		eventually(t, func() error {
			must(t, api.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			change()
			return api.Update(t.Context(), object)
		})
	}
	read(from.Admin)
	kinds := registration.Spec.ClaimingResources
	change(from.Admin, policy, func() {
		policy.Annotations, policy.Spec.Disabled = map[string]string{"kubernetes.io/description": "x"}, true
		policy.Spec.Trigger.Constraints = []quotav1alpha1.ConditionExpression{{Expression: `trigger.metadata.name == "a"`}}
	})
	change(from.Admin, registration, func() {
		registration.Spec.ClaimingResources = append(registration.Spec.ClaimingResources, quotav1alpha1.ClaimingResource{Kind: "Endpoints"})
		registration.Spec.MaxPerConsumer = new(int64(500))
	})
	run()
	read(to.Admin)
	if !policy.Spec.Disabled || len(policy.Spec.Trigger.Constraints) != 1 || policy.Annotations["kubernetes.io/description"] != "x" || registration.Spec.MaxPerConsumer == nil {
		t.Fatalf("imported are %+v and %+v", policy, registration)
	}
	change(to.Admin, policy, func() {
		policy.Labels["example.com/own"] = "x"
	})

	change(from.Admin, policy, func() { policy.Annotations, policy.Spec.Disabled, policy.Spec.Trigger.Constraints = nil, false, nil })
	change(from.Admin, registration, func() { registration.Spec.ClaimingResources, registration.Spec.MaxPerConsumer = kinds, nil })
	run()
	read(to.Admin)
	if policy.Spec.Disabled || len(policy.Spec.Trigger.Constraints) != 0 || policy.Annotations["kubernetes.io/description"] != "" {
		t.Errorf("the policy keeps %+v with the annotations %v", policy.Spec, policy.Annotations)
	}
	if policy.Labels["example.com/own"] != "x" {
		t.Errorf("the administrator's label is lost: %v", policy.Labels)
	}
	if len(registration.Spec.ClaimingResources) != len(kinds) || registration.Spec.MaxPerConsumer != nil {
		t.Errorf("the registration keeps %+v", registration.Spec)
	}
	eventually(t, func() error { return platform.IsReady(t.Context(), to.Admin, policy) })
	before := []int64{policy.Generation, registration.Generation}
	run()
	read(to.Admin)
	if policy.Generation != before[0] || registration.Generation != before[1] {
		t.Errorf("without a change, an import writes")
	}
}

// TestImportBesideDeletedNamespaces deletes one namespace while the server checks the import, and another while the
// import writes. It leaves out their objects, says so, and goes on.
func TestImportBesideDeletedNamespaces(t *testing.T) {
	t.Parallel()
	m := &migrated{T: t, Server: start(t, standalone.Options{})}
	for _, namespace := range []string{"checked", "written", "stays"} {
		m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, m.quota(namespace, "compute", "count/secrets=1"))
	}
	deleting := map[string]*sync.Once{"/namespaces/checked/resourcegrants/": {}, "/namespaces/written/quotaconsumers/": {}}
	api := rest.CopyConfig(m.Config)
	api.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			for path, once := range deleting {
				if request.Method == http.MethodPatch && strings.Contains(request.URL.Path, path) {
					once.Do(func() {
						name := strings.Split(path, "/")[2]
						if err := m.Admin.Delete(m.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
							m.Error(err)
						}
					})
				}
			}
			return next.RoundTrip(request)
		})
	})
	report := m.run(importer.Options{Config: api, From: "resourcequota", SystemNamespace: config.DefaultSystemNamespace})
	var text strings.Builder
	must(m, report.Print(&text, ""))
	for _, part := range []string{"Namespace checked: it was deleted", "Namespace written: it was deleted", "QuotaConsumer stays"} {
		if !strings.Contains(text.String(), part) {
			m.Errorf("the report does not say %q:\n%s", part, &text)
		}
	}
	if len(report.Plan.Grants) != 1 || len(report.Plan.TakenOver) != 1 {
		m.Errorf("the report has the grants %+v and the limits %+v", report.Plan.Grants, report.Plan.TakenOver)
	}
	m.waitAdopted("resourcequota", quotav1alpha1.EnforcementModeAudit)
	must(m, m.Admin.Get(m.Context(), client.ObjectKey{Namespace: "stays", Name: "imported-resourcequota"}, &quotav1alpha1.ResourceGrant{}))
}

// roundTripper is a transport in a function.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// TestImportFollowsLabels gives a namespace to another team. After a further import, its Secret is charged to that team
// alone.
func TestImportFollowsLabels(t *testing.T) {
	t.Parallel()
	m := &migrated{T: t, Server: start(t, standalone.Options{})}
	fixture(t, m.Server, filepath.Join("testdata", "import", "clusterresourcequota.yaml"))
	for _, team := range []string{"blue", "green"} {
		quota := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"selector": map[string]any{"labels": map[string]any{"matchLabels": map[string]any{"team": team}}},
			"quota":    map[string]any{"hard": map[string]any{"count/secrets": "5"}},
		}}}
		quota.SetAPIVersion("quota.openshift.io/v1")
		quota.SetKind("ClusterResourceQuota")
		quota.SetName(team)
		m.create(quota)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "moves", Labels: map[string]string{"team": "blue"}}}
	m.create(namespace, m.secret("moves", "one"))
	options := importer.Options{Config: m.Config, From: "clusterresourcequota", SystemNamespace: config.DefaultSystemNamespace}
	follow := func(want ...string) {
		m.run(options)
		m.waitAdopted("clusterresourcequota", quotav1alpha1.EnforcementModeAudit)
		eventually(m, func() error {
			var all quotav1alpha1.ResourceClaimList
			must(m, m.Admin.List(m.Context(), &all, client.InNamespace("moves")))
			var got []string
			for i := range all.Items {
				got = append(got, all.Items[i].Spec.ConsumerRef.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Errorf("the Secret is charged to %v, want %v", got, want)
			}
			return nil
		})
	}
	follow("clusterresourcequota-blue")
	must(m, m.Admin.Patch(m.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"green"}}}`))))
	follow("clusterresourcequota-green")
}
