package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/export"
	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/cli/restore"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// startTwo starts a server to back up and another one to restore into.
func startTwo(t *testing.T) (from, to *server.Server) {
	t.Helper()
	takeServers(t, 2)
	for _, s := range []**server.Server{&from, &to} {
		started, err := server.Start(standalone.Options{})
		must(t, err)
		t.Cleanup(func() { must(t, started.Stop()) })
		must(t, platform.Install(t.Context(), started.Admin))
		*s = started
	}
	return from, to
}

func untyped(t *testing.T, s *server.Server) (discovery.DiscoveryInterface, dynamic.Interface) {
	t.Helper()
	discovered, err := discovery.NewDiscoveryClientForConfig(s.Config)
	must(t, err)
	objects, err := dynamic.NewForConfig(s.Config)
	must(t, err)
	return discovered, objects
}

// exported returns the configuration of a server as YAML, with the namespaces.
func exported(t *testing.T, s *server.Server) string {
	t.Helper()
	discovered, objects := untyped(t, s)
	set, err := export.Read(t.Context(), export.Options{Discovery: discovered, Dynamic: objects, WithNamespaces: true})
	must(t, err)
	var text strings.Builder
	must(t, set.Print(&text, ""))
	return text.String()
}

// declareEverything creates an object of each kind that people declare.
func declareEverything(t *testing.T, api client.Client) {
	t.Helper()
	platform.DeclareMaps(t, api, 100)
	platform.ProtectMaps(t, api, "ConfigMap")
	for _, namespace := range []string{"team-a", "organization-acme"} {
		must(t, api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"team": "a"}}}))
	}
	hard := list("count/secrets=10")
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	for _, object := range []client.Object{
		&quotav1alpha1.GrantCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "organizations"}, Spec: quotav1alpha1.GrantCreationPolicySpec{
			Trigger: quotav1alpha1.GrantTrigger{Resource: quotav1alpha1.GrantTriggerResource{APIVersion: platform.Group + "/v1", Kind: platform.Kind}},
			Target: quotav1alpha1.GrantTarget{ResourceGrantTemplate: quotav1alpha1.ResourceGrantTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: "base-{{.trigger.metadata.name}}", Namespace: "default"},
				Spec: quotav1alpha1.ResourceGrantSpec{
					ConsumerRef: platform.Consumer("{{.trigger.metadata.name}}"),
					Allowances:  []quotav1alpha1.Allowance{{ResourceType: platform.MapsType, Buckets: []quotav1alpha1.Bucket{{Amount: 7}}}},
				},
			}},
		}},
		&quotav1alpha1.QuotaAlert{ObjectMeta: metav1.ObjectMeta{Name: "acme", Namespace: config.DefaultSystemNamespace}, Spec: quotav1alpha1.QuotaAlertSpec{
			ConsumerRef: platform.Consumer("acme"), Thresholds: []quotav1alpha1.QuotaAlertThreshold{{ResourceType: platform.MapsType, Percent: 70}},
		}},
		&quotav1alpha1.QuotaRequestPolicy{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: quotav1alpha1.QuotaRequestPolicySpec{
			ResourceTypes: []string{platform.MapsType},
			Rules:         []quotav1alpha1.QuotaRequestRule{{Name: "never", Condition: "size(asks) > 100", Action: quotav1alpha1.ActionApprove}},
		}},
		&quotav1alpha1.ResourceQuotaAllocation{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}, Spec: quotav1alpha1.ResourceQuotaAllocationSpec{
			Selector: *team, Allocation: corev1.ResourceQuotaSpec{Hard: list("count/secrets=100")},
		}},
		&openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: "teams"}, Spec: openmcpv1alpha1.QuotaServiceConfigSpec{
			Quotas: []openmcpv1alpha1.QuotaDefinition{{Name: "base", Selector: team, Mode: openmcpv1alpha1.ModeCumulative,
				Template: openmcpv1alpha1.QuotaTemplate{Spec: corev1.ResourceQuotaSpec{Hard: hard}}}},
		}},
		&openmcpv1alpha1.QuotaIncrease{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: "team-a"}, Spec: openmcpv1alpha1.QuotaIncreaseSpec{Hard: list("count/secrets=5")}},
		organization("acme"),
	} {
		must(t, api.Create(t.Context(), object))
	}
}

func organization(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": platform.Group + "/v1", "kind": platform.Kind, "metadata": map[string]any{"name": name},
	}}
}

// TestExport applies the export of a server to another one, and then expects the same export there.
func TestExport(t *testing.T) {
	t.Parallel()
	from, to := startTwo(t)
	declareEverything(t, from.Admin)
	eventually(t, func() error { // a policy's grant is no declaration
		return from.Admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "base-acme"}, &quotav1alpha1.ResourceGrant{})
	})
	text := exported(t, from)
	for _, kind := range []string{
		"Namespace", "ResourceRegistration", "ResourceGrant", "QuotaAlert", "ResourceQuotaAllocation", "QuotaIncrease", "QuotaServiceConfig",
		"QuotaRequestPolicy", "GrantCreationPolicy", "ClaimCreationPolicy",
	} {
		if !strings.Contains(text, "\nkind: "+kind+"\n") {
			t.Errorf("the export has no %s", kind)
		}
	}
	for _, part := range []string{"base-acme", "uid:", "resourceVersion:", "finalizers:", "status:", "changed-by", "managedFields"} {
		if strings.Contains(text, part) {
			t.Errorf("the export has %q:\n%s", part, text)
		}
	}
	applyDocuments(t, to, text)
	if diff := cmp.Diff(text, exported(t, to)); diff != "" {
		t.Errorf("the export of the other server differs (-first +other):\n%s", diff)
	}
}

// applyDocuments does what kubectl apply does with an export, as the administrator.
func applyDocuments(t *testing.T, s *server.Server, text string) {
	t.Helper()
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(&object.Object); err != nil {
			return
		}
		must(t, s.Admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl"), client.ForceOwnership))
	}
}

// shownUse is what consumers have and use, as administrators see it.
func shownUse(t testing.TB, api client.Reader) (map[string]string, error) {
	var shown quotav1alpha1.EffectiveResourceGrantList
	if err := api.List(t.Context(), &shown); err != nil {
		return nil, err
	}
	table := map[string]string{}
	for i := range shown.Items {
		item := &shown.Items[i]
		table[item.Spec.ConsumerRef.Name+" "+item.Spec.ResourceType] = fmt.Sprintf("%d of %d", item.Status.TotalAllocated, item.Status.TotalLimit)
	}
	return table, nil
}

// copyMaps creates the maps of a server on another one, with other UIDs.
func copyMaps(t *testing.T, from, to client.Client) {
	t.Helper()
	var all corev1.ConfigMapList
	must(t, from.List(t.Context(), &all, client.InNamespace("default")))
	for i := range all.Items {
		if m := &all.Items[i]; platform.IsMap(m) {
			must(t, client.IgnoreAlreadyExists(to.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace}})))
		}
	}
}

// cut is a connection that breaks after a number of changes.
type cut struct {
	http.RoundTripper
	left *atomic.Int64
}

var errCut = errors.New("the connection is cut")

func (c cut) RoundTrip(request *http.Request) (*http.Response, error) {
	isReview := strings.Contains(request.URL.Path, "selfsubjectaccessreviews")
	if request.Method != http.MethodGet && !isReview && c.left.Add(-1) < 0 {
		return nil, errCut
	}
	return c.RoundTripper.RoundTrip(request)
}

// TestBackupIsRestored backs up a server under load, and restores the backup into another one. Each attempt loses its
// connection after a few changes.
func TestBackupIsRestored(t *testing.T) {
	t.Parallel()
	from, to := startTwo(t)
	declareEverything(t, from.Admin)
	w := &world{T: t, ctx: t.Context(), name: "acme"}
	makeHistory(t, from)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load kit.Churn
	load.Start(ctx, t, from.Admin, 1)
	await.NoError(t, soon, func() error { return load.Advance(t.Context(), from.Admin, 0, 20) })
	path := filepath.Join(t.TempDir(), "quota.tar.gz")
	discovered, objects := untyped(t, from)
	manifest, err := backup.Write(t.Context(), backup.Options{Discovery: discovered, Dynamic: objects, Path: path, Version: "test"})
	must(t, err)
	if manifest.ResourceVersion == "" {
		t.Errorf("the backup shows several instants: %+v", manifest)
	}
	stop()
	load.Wait()

	// The namespaces and the objects come with another tool, some of them later.
	copyMaps(t, from.Admin, to.Admin)
	options := restore.Options{Config: to.Config, Path: path, Timeout: time.Minute}
	wantNoKind(t, to, options)
	eventually(t, func() error { return client.IgnoreAlreadyExists(to.Admin.Create(t.Context(), organization("acme"))) })
	if _, err := restore.Run(t.Context(), options); err == nil || !strings.Contains(err.Error(), "team-a; create them, or give --create-namespaces; nothing was changed") {
		t.Errorf("got %v without the namespace team-a", err)
	}
	options.CreateNamespaces = true
	attempts := 0
	for changes := int64(1); ; changes++ {
		left := &atomic.Int64{}
		left.Store(changes)
		options.Config = rest.CopyConfig(to.Config)
		options.Config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return cut{rt, left} })
		report, err := restore.Run(t.Context(), options)
		attempts++
		if err == nil {
			var text strings.Builder
			must(t, report.Print(&text, ""))
			if !strings.Contains(text.String(), "The ledgers agree with the claims.") {
				t.Errorf("the report is\n%s", &text)
			}
			break
		}
		if !strings.Contains(err.Error(), errCut.Error()) {
			t.Fatalf("attempt %d: %v", attempts, err)
		}
	}
	if attempts < 5 {
		t.Errorf("the restore took %d attempts, want more", attempts)
	}
	wantRestored(w, from, to)
}

// wantNoKind expects that a restore changes nothing without the kind of consumers and triggers, and names it.
func wantNoKind(t *testing.T, to *server.Server, options restore.Options) {
	t.Helper()
	definition := platform.Definition(platform.Group, platform.Kind, "organizations")
	must(t, to.Admin.Delete(t.Context(), definition))
	// The API server itself looks for up to a minute until the objects of the kind are gone.
	await.NoError(t, 2*time.Minute, func() error {
		if err := to.Admin.Get(t.Context(), client.ObjectKeyFromObject(definition), definition); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the kind is still there (%v)", err)
		}
		return nil
	})
	waitDiscovered(t, to, false)
	want := "policies: " + platform.Kind + "." + platform.Group + "; install their CustomResourceDefinitions first; nothing was changed"
	for _, options.DryRun = range []bool{true, false} {
		if _, err := restore.Run(t.Context(), options); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("dry run: %v: got %v, want %q", options.DryRun, err, want)
		}
	}
	must(t, platform.Install(t.Context(), to.Admin))
	waitDiscovered(t, to, true)
}

// waitDiscovered waits until a server lists the kind of consumers among the kinds it serves, or no longer does. The
// list follows the definitions by a watch, and a restore reads it.
func waitDiscovered(t *testing.T, s *server.Server, want bool) {
	t.Helper()
	discovered, _ := untyped(t, s)
	eventually(t, func() error {
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovered))
		_, err := mapper.RESTMapping(schema.GroupKind{Group: platform.Group, Kind: platform.Kind})
		if err != nil && !apimeta.IsNoMatchError(err) {
			return err
		}
		if isServed := err == nil; isServed != want {
			return fmt.Errorf("kind %s is served: %t, want %t", platform.Kind, isServed, want)
		}
		return nil
	})
}

// backUp writes a backup of a server, and returns its path.
func backUp(t *testing.T, s *server.Server) (path string) {
	t.Helper()
	return backUpInto(t, s, t.TempDir())
}

func backUpInto(t *testing.T, s *server.Server, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "quota.tar.gz")
	discovered, objects := untyped(t, s)
	_, err := backup.Write(t.Context(), backup.Options{Discovery: discovered, Dynamic: objects, Path: path, Version: "test"})
	must(t, err)
	return path
}

// restored runs a restore without an error, and returns its report as text. In a dry run, a change would be an error.
func restored(t *testing.T, options restore.Options) string {
	t.Helper()
	if options.DryRun {
		options.Config = rest.CopyConfig(options.Config)
		options.Config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return cut{rt, &atomic.Int64{}} })
	}
	report, err := restore.Run(t.Context(), options)
	must(t, err)
	var text strings.Builder
	must(t, report.Print(&text, ""))
	return text.String()
}

// wantRestored compares the servers: the declarations of all kinds, the use of quota, claims with their objects, and
// requests with their decisions.
func wantRestored(w *world, from, to *server.Server) {
	w.Helper()
	wantDeclared(w.T, from, to)
	eventually(w, func() error {
		want, errWant := shownUse(w, from.Admin)
		got, errGot := shownUse(w, to.Admin)
		if err := errors.Join(errWant, errGot); err != nil {
			return err
		}
		if !maps.Equal(want, got) {
			return fmt.Errorf("the use differs (-first +other):\n%s", cmp.Diff(want, got))
		}
		return nil
	})
	agreement := kit.Agreement{Limits: kit.Charges{"acme": kit.Amounts{platform.MapsType: 1007}}, Objects: map[types.UID]kit.Charges{}, Direct: true}
	var all corev1.ConfigMapList
	must(w, to.Admin.List(w.ctx, &all, client.InNamespace("default")))
	for i := range all.Items {
		if m := &all.Items[i]; platform.IsMap(m) {
			agreement.Objects[m.UID] = kit.Charges{"acme": kit.Amounts{platform.MapsType: 1}}
		}
	}
	eventually(w, func() error { return agreement.Check(w.ctx, to.Admin) })
	if diff := cmp.Diff(requestsOf(w, from), requestsOf(w, to)); diff != "" {
		w.Errorf("the requests differ (-first +other):\n%s", diff)
	}
	m := platform.Map(9_999_999)
	must(w, to.Admin.Create(w.ctx, m)) // Bursar charges it as before
	eventually(w, func() error {
		agreement.Objects[m.UID] = kit.Charges{"acme": kit.Amounts{platform.MapsType: 1}}
		return agreement.Check(w.ctx, to.Admin)
	})
}

// wantDeclared expects the same declarations on two servers, of every kind that people declare, and namespaces with the
// labels to be selected by.
func wantDeclared(t *testing.T, from, to *server.Server) {
	t.Helper()
	discovered, _ := untyped(t, from)
	kinds, err := quotakinds.Find(discovered)
	must(t, err)
	before := exported(t, from)
	for _, kind := range quotakinds.WithRoles(kinds, quotakinds.Declared) {
		if !strings.Contains(before, "\nkind: "+kind.Kind+"\n") {
			t.Errorf("there is no %s to restore", kind.Kind)
		}
	}
	if diff := cmp.Diff(before, exported(t, to)); diff != "" {
		t.Errorf("the declarations differ (-first +other):\n%s", diff)
	}
	eventually(t, func() error {
		quota := &corev1.ResourceQuota{}
		if err := to.Admin.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "base"}, quota); err != nil {
			return err
		}
		if got := quota.Spec.Hard["count/secrets"]; got.Value() != 15 {
			return fmt.Errorf("the ResourceQuota of the restored namespace has %s Secrets, want 10 and an increase of 5", &got)
		}
		return nil
	})
}
