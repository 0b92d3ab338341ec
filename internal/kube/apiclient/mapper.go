package apiclient

import (
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bursar/bursar/deploy/crds"
)

// NewMapper returns a mapper for Bursar's own kinds and, by asking the API server, for all others. With several API
// servers, one may list a kind before another serves it.
func NewMapper(config *rest.Config, httpClient *http.Client) (meta.RESTMapper, error) {
	others, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a mapper of kinds: %w", err)
	}
	definitions, err := crds.All()
	if err != nil {
		return nil, fmt.Errorf("read the CRDs: %w", err)
	}
	own := meta.NewDefaultRESTMapper(nil)
	for _, definition := range definitions {
		scope := meta.RESTScopeRoot
		if definition.Spec.Scope == apiextensionsv1.NamespaceScoped {
			scope = meta.RESTScopeNamespace
		}
		names := definition.Spec.Names
		for _, version := range definition.Spec.Versions {
			in := schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}
			own.AddSpecific(in.WithKind(names.Kind), in.WithResource(names.Plural), in.WithResource(names.Singular), scope)
		}
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{own, others}}, nil
}
