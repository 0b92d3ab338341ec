package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/rbac"
	"github.com/bursar/bursar/internal/cli/importer"
	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/cli/restore"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/internal/standalone"
	testserver "github.com/bursar/bursar/test/server"
)

// TestImportedQuotaIsRestored imports the limits of a ResourceQuota on a standalone server, and restores a backup of it
// by a platform administrator on another API server. There the operator runs with the roles of the chart, and follows
// Secrets only by the restored role of the import.
func TestImportedQuotaIsRestored(t *testing.T) {
	t.Parallel()
	const importedLimits = quotav1alpha1.AnnotationImportedLimits + "resourcequota"
	var path, before string
	dir := t.TempDir()
	isBackedUp := t.Run("BackUp", func(t *testing.T) {
		s := start(t, standalone.Options{})
		importShop(t, s)
		administrator := asPlatformAdmin(t, s)
		path, before = backUpInto(t, administrator, dir), exported(t, administrator)
	})
	if !isBackedUp {
		return
	}
	for _, part := range []string{"kind: QuotaConsumer\n", "name: bursar-imported-resourcequota\n", "name: quotaconsumers.import.quota.miloapis.com\n", importedLimits + ": ", "kind: ValidatingAdmissionPolicyBinding\n"} {
		if !strings.Contains(before, part) {
			t.Errorf("the export has no %q:\n%s", part, before)
		}
	}

	s := newScene(t)
	roles, err := rbac.ForOperator(systemNamespace)
	must(t, err)
	s.permit(roles)
	revoke := s.permitInstall(roles)
	var asked requests
	defer s.run(&asked, operator.Options{InstallCRDs: true})()
	revoke()
	to := &testserver.Server{Config: s.config}
	options := restore.Options{Config: s.config, Path: path, CreateNamespaces: true, Timeout: soon, DryRun: true}
	if text := restored(t, options); !strings.Contains(text, "Nothing was changed") || isServedIn(t, s) {
		t.Errorf("a dry run says\n%s", text)
	}
	options.DryRun = false
	if text := restored(t, options); strings.Contains(text, "Warning") {
		t.Errorf("the report is\n%s", text)
	}
	if diff := cmp.Diff(before, exported(t, to)); diff != "" {
		t.Errorf("the declarations differ (-first +other):\n%s", diff)
	}
	secret := func(name string) error {
		return s.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	}
	for _, name := range []string{"first", "second"} {
		eventually(t, func() error { return client.IgnoreAlreadyExists(secret(name)) })
	}
	if err := secret("third"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: Secret quota of QuotaConsumer shop") {
		t.Errorf("beyond the restored limit got %v", err)
	}
	for _, refusal := range asked.refusals() {
		t.Errorf("the operator was forbidden %s", refusal)
	}

	shop := &corev1.Namespace{}
	must(t, s.Get(t.Context(), client.ObjectKey{Name: "shop"}, shop))
	patch := client.MergeFrom(shop.DeepCopy())
	limits := shop.Annotations[importedLimits]
	delete(shop.Annotations, importedLimits)
	shop.Labels["unused"] = "by-quota"
	must(t, s.Patch(t.Context(), shop, patch))
	text := strings.Join(strings.Fields(restored(t, options)), " ")
	if want := fmt.Sprintf("HERE shop %s %s <none> Warning: these namespaces differ", importedLimits, limits); !strings.Contains(text, want) {
		t.Errorf("the report is\n%s\nwant %q", text, want)
	}
}

// asPlatformAdmin returns a server for a user with the role of platform administrators, and no other.
func asPlatformAdmin(t *testing.T, s *testserver.Server) *testserver.Server {
	t.Helper()
	const user = "planner"
	must(t, s.Admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bursar-platform-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	as := &testserver.Server{Config: rest.CopyConfig(s.Config)}
	as.Config.Impersonate = rest.ImpersonationConfig{UserName: user}
	_, api := untyped(t, as)
	eventually(t, func() error { // the API server learns of the binding
		_, err := quotakinds.Namespaces.Version(t.Context(), api)
		return err
	})
	return as
}

// importShop makes a namespace with a ResourceQuota of two Secrets, and enforces it by an import.
func importShop(t *testing.T, s *testserver.Server) {
	t.Helper()
	must(t, s.Admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	for _, object := range []client.Object{
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "compute", Namespace: "shop"}, Spec: corev1.ResourceQuotaSpec{Hard: list("count/secrets=2")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "first", Namespace: "shop"}},
	} {
		eventually(t, func() error { return client.IgnoreAlreadyExists(s.Admin.Create(t.Context(), object)) })
	}
	options := importer.Options{Config: s.Config, From: "resourcequota", SystemNamespace: config.DefaultSystemNamespace}
	_, err := importer.Run(t.Context(), options)
	must(t, err)
	eventually(t, func() error { return charges(t, s, "resourcequota", 1) })
	_, err = importer.SetMode(t.Context(), options, quotav1alpha1.EnforcementModeEnforce)
	must(t, err)
}

// isServedIn reports whether the API server of a scene has imported consumers.
func isServedIn(t *testing.T, s *scene) bool {
	t.Helper()
	discovered, _ := untyped(t, &testserver.Server{Config: s.config})
	_, err := discovered.ServerResourcesForGroupVersion("import.quota.miloapis.com/v1alpha1")
	return err == nil
}
