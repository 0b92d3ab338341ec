package chart

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/bursar/bursar/deploy/crds"
)

// TestDefinitionsAreInstalledFirst proves that a first install brings the kinds along, so objects installed with Bursar
// may use them at once.
func TestDefinitionsAreInstalledFirst(t *testing.T) {
	output, err := run(t, "", "template", "bursar", chart, "--kube-version", "1.36.0", "--include-crds")
	if err != nil {
		t.Fatal(err)
	}
	var got []*apiextensionsv1.CustomResourceDefinition
	for reader := kubeyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(output))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if definition := (&apiextensionsv1.CustomResourceDefinition{}); strings.Contains(string(document), "\nkind: "+definitionKind+"\n") {
			if err := yaml.UnmarshalStrict(document, definition); err != nil {
				t.Fatal(err)
			}
			got = append(got, definition)
		}
	}
	want, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions (-embedded +chart):\n%s", diff)
	}
}

const definitionKind = "CustomResourceDefinition"

// TestDefinitionsOutliveTheRelease proves that the CustomResourceDefinitions are no part of a release. So Helm does not
// delete them with it, and all objects under them stay. To keep them up to date, the operator needs permission to
// replace them.
func TestDefinitionsOutliveTheRelease(t *testing.T) {
	objects := rendered(t, "")
	for _, object := range objects {
		if object.GetObjectKind().GroupVersionKind().Kind == definitionKind {
			t.Errorf("the release has the definition %s", object.GetName())
		}
	}
	binding := find[*rbacv1.ClusterRoleBinding](t, objects, "bursar-operator-install")
	if binding.Subjects[0].Name != "bursar" || binding.Subjects[0].Namespace != namespace {
		t.Errorf("the permission to install definitions is for %+v", binding.Subjects)
	}
	withoutPermission := rendered(t, "configuration: {installCRDs: false}")
	if slices.ContainsFunc(withoutPermission, func(o client.Object) bool { return strings.HasPrefix(o.GetName(), "bursar-operator-install") }) {
		t.Error("an operator that installs no definitions is permitted to")
	}
}
