package e2e

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/rbac"
	"github.com/bursar/bursar/internal/cli/uninstall"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/operator"
	testserver "github.com/bursar/bursar/test/server"
)

// TestUninstallKnowsImports uninstalls Bursar with an enforced import. Without --purge the import stays and is named,
// with it nothing of the import is left, and the ResourceQuota stays.
func TestUninstallKnowsImports(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	roles, err := rbac.ForOperator(systemNamespace)
	must(t, err)
	s.permit(roles)
	s.permitInstall(roles)
	var asked requests
	stop := s.run(&asked, operator.Options{InstallCRDs: true})
	importShop(t, &testserver.Server{Config: s.config, Admin: s.Client.(client.WithWatch)})
	stop()

	const policy, role, annotations = "ValidatingAdmissionPolicy bursar-imported-limits", "ClusterRole bursar-imported-resourcequota", "the annotations quota.miloapis.com/imported-limits-* of 1 namespace\n"
	s.uninstalls(uninstall.Options{Purge: true, DryRun: true}, "would delete ValidatingAdmissionPolicyBinding bursar-imported-limits\n", "would delete "+policy+"\n",
		"would delete "+role+"\n", "would remove "+annotations, "would delete 1 quotaconsumers.import.quota.miloapis.com\n")
	s.uninstalls(uninstall.Options{}, "\n  "+policy+", which still protects the annotations quota.miloapis.com/imported-limits-* of namespaces\n", "\n  "+role+"\n", "\n  1 quotaconsumers.import.quota.miloapis.com\n")
	s.wantImported(true)

	var registrations quotav1alpha1.ResourceRegistrationList
	must(t, s.List(t.Context(), &registrations))
	milos := &registrations.Items[0]
	inPlace := func(value string) {
		patch := `{"metadata": {"annotations": {"` + quotav1alpha1.AnnotationImportedInPlace + `": ` + value + `}}}`
		must(t, s.Patch(t.Context(), milos, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	inPlace(`"true"`)
	text, err := s.uninstall(uninstall.Options{Purge: true})
	if want := "ResourceRegistration " + milos.Name + " is older than its import from resourcequota"; err == nil || !strings.Contains(err.Error(), want) || strings.Contains(text, "delete") {
		t.Errorf("with an object of Milo got %v, want %q\n%s", err, want, text)
	}
	inPlace("null")

	s.uninstalls(uninstall.Options{Purge: true}, "deleted "+policy+"\n", "deleted "+role+"\n", "removed "+annotations)
	s.wantImported(false)
	must(t, s.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "compute"}, &corev1.ResourceQuota{}))
	if text, err := s.uninstall(uninstall.Options{Purge: true}); err != nil || strings.Contains(text, "deleted") || strings.Contains(text, "removed") {
		t.Errorf("a second time got %v and\n%s\nwant nothing to be left", err, text)
	}
}

// uninstall returns the output of bursar uninstall.
func (s *scene) uninstall(o uninstall.Options) (string, error) {
	var text strings.Builder
	o.Config, o.SystemNamespace, o.CertificateSecret, o.Program, o.Out = s.config, systemNamespace, naming.CertificateSecret, "bursar", &text
	err := uninstall.Run(s.Context(), o)
	return text.String(), err
}

// uninstalls has to succeed, with all parts in its output.
func (s *scene) uninstalls(o uninstall.Options, parts ...string) {
	s.Helper()
	text, err := s.uninstall(o)
	must(s, err)
	for _, part := range parts {
		if !strings.Contains(text, part) {
			s.Errorf("it says\n%s\nwant %q", text, part)
		}
	}
}

// wantImported checks that the objects of the import outside of Bursar's kinds are there, or that none is.
func (s *scene) wantImported(want bool) {
	s.Helper()
	for _, object := range []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "bursar-imported-limits"}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "bursar-imported-limits"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bursar-imported-resourcequota"}},
		&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "quotaconsumers.import.quota.miloapis.com"}},
	} {
		err := s.Get(s.Context(), client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == want {
			s.Errorf("reading %T %s got %v, want it to be there: %t", object, object.GetName(), err, want)
		}
	}
	shop := &corev1.Namespace{}
	must(s, s.Get(s.Context(), client.ObjectKey{Name: "shop"}, shop))
	if limits := shop.Annotations[quotav1alpha1.AnnotationImportedLimits+"resourcequota"]; (limits != "") != want {
		s.Errorf("namespace shop has the annotations %v", shop.Annotations)
	}
}
