package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bursar/bursar/api/quota/v1alpha1"
)

// TestAPIServerAcceptsDefinitions runs the checks of the API server on the create of a CRD: structural schemas,
// defaults, and the compilation and the budget of CEL rules.
func TestAPIServerAcceptsDefinitions(t *testing.T) {
	for kind, definition := range definitions(t) {
		t.Run(kind, func(t *testing.T) {
			for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), asStored(t, definition)) {
				t.Error(err)
			}
		})
	}
}

// TestAliases proves that the ways to call the kinds in kubectl are distinct and take none of
// those of the core kinds. A category called quota would: kubectl looks for categories first, so
// "kubectl get quota" would no longer list ResourceQuotas.
func TestAliases(t *testing.T) {
	taken := map[string]string{
		"all": "category", "cm": "ConfigMap", "cr": "ClusterRole", "ep": "Endpoints", "ev": "Event",
		"no": "Node", "ns": "Namespace", "po": "Pod", "pv": "PersistentVolume", "quota": "ResourceQuota",
		"rc": "ReplicationController", "rs": "ReplicaSet", "sa": "ServiceAccount", "sc": "StorageClass",
		"svc": "Service",
	}
	for kind, definition := range definitions(t) {
		names := definition.Spec.Names
		if len(names.ShortNames) == 0 {
			t.Errorf("%s has no short name", kind)
		}
		for _, alias := range names.ShortNames {
			if other, clash := taken[alias]; clash {
				t.Errorf("short name %s of %s is taken by %s", alias, kind, other)
			}
			taken[alias] = kind
		}
		if want := categories(kind); !cmp.Equal(want, names.Categories) {
			t.Errorf("categories of %s are %v, want %v", kind, names.Categories, want)
		}
	}
}

func categories(kind string) []string {
	if internalKinds[kind] {
		return nil
	}
	return []string{"bursar"}
}

// TestSchemeKnowsEveryKind proves that each CRD has its Go type in the scheme, and its list.
func TestSchemeKnowsEveryKind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for kind, definition := range definitions(t) {
		for _, name := range []string{kind, definition.Spec.Names.ListKind} {
			if !scheme.Recognizes(v1alpha1.GroupVersion.WithKind(name)) {
				t.Errorf("the scheme does not know %s", name)
			}
		}
	}
}

// asStored converts a definition to the API server's own type, with its defaults.
func asStored(t *testing.T, definition *apiextensionsv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	t.Helper()
	defaulted := definition.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(defaulted)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&defaulted.Spec)
	stored := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(defaulted, stored, nil); err != nil {
		t.Fatalf("convert the definition of %s: %v", definition.Spec.Names.Kind, err)
	}
	stored.Status.StoredVersions = []string{v1alpha1.GroupVersion.Version}
	return stored
}
