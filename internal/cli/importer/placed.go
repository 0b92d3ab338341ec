package importer

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// placed is an object to write.
type placed struct {
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
	// change is the difference to the object on the server as a merge patch. It is nil for a new object.
	change map[string]any
}

// Objects returns the objects of an import, in its order, as declarations. A limit comes before its policies, so an
// enforced policy never finds a limit missing.
func (p *Plan) Objects(source string) ([]*unstructured.Unstructured, error) {
	all, err := p.placed(source)
	objects := make([]*unstructured.Unstructured, 0, len(all))
	for _, each := range all {
		objects = append(objects, each.object)
	}
	return objects, err
}

func (p *Plan) placed(source string) ([]placed, error) {
	var all []placed
	if len(p.Consumers) > 0 {
		all = append(all, placed{resource: definitions, object: consumerDefinition()}, placed{resource: clusterRoles, object: p.role(source)})
	}
	if len(p.Limited) > 0 {
		all = append(all, protection()...)
	}
	for _, c := range p.Consumers {
		labels := map[string]string{quotav1alpha1.LabelImportedFrom: source}
		all = append(all, placed{resource: consumersAPI, object: objectOf(consumersAPI.GroupVersion().String(), consumerKind, c.Namespace, c.Name, labels)})
	}
	var err error
	for _, r := range p.Registrations {
		all, err = appendPlaced(all, err, registrations, "ResourceRegistration", r)
	}
	for _, g := range p.Grants {
		all, err = appendPlaced(all, err, grants, "ResourceGrant", g)
	}
	for _, name := range sortedKeys(p.Limited) {
		namespace := objectOf("v1", "Namespace", "", name, nil)
		namespace.SetAnnotations(map[string]string{quotav1alpha1.AnnotationImportedLimits + source: strings.Join(p.Limited[name], ",")})
		all = append(all, placed{resource: namespacesAPI, object: namespace})
	}
	for _, g := range p.GrantPolicies {
		all, err = appendPlaced(all, err, grantPolicies, "GrantCreationPolicy", g)
	}
	for _, c := range p.Policies {
		all, err = appendPlaced(all, err, claimPolicies, "ClaimCreationPolicy", c)
	}
	return all, err
}

func appendPlaced(all []placed, earlier error, resource schema.GroupVersionResource, kind string, object any) ([]placed, error) {
	if earlier != nil {
		return all, earlier
	}
	content, err := json.Marshal(object)
	if err != nil {
		return all, fmt.Errorf("encode a %s: %w", kind, err)
	}
	fields := map[string]any{}
	if err := utiljson.Unmarshal(content, &fields); err != nil {
		return all, fmt.Errorf("encode a %s: %w", kind, err)
	}
	delete(fields, "status")
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion(resource.GroupVersion().String())
	u.SetKind(kind)
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return append(all, placed{resource: resource, object: u}), nil
}

func objectOf(version, kind, namespace, name string, labels map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	return u
}

// consumerDefinition defines the kind of imported consumers.
func consumerDefinition() *unstructured.Unstructured {
	u := objectOf("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", consumersAPI.GroupResource().String(), nil)
	u.Object["spec"] = map[string]any{
		"group": consumerGroup, "scope": "Namespaced",
		"names": map[string]any{"kind": consumerKind, "plural": consumersAPI.Resource, "singular": "quotaconsumer", "listKind": consumerKind + "List"},
		"versions": []any{map[string]any{
			"name": consumersAPI.Version, "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "description": "QuotaConsumer is a namespace, or a set of namespaces, whose limits bursar import took over from another system.",
			}},
		}},
	}
	return u
}

func roleName(source string) string { return "bursar-imported-" + source }

// role lets Bursar follow the kinds of the policies.
func (p *Plan) role(source string) *unstructured.Unstructured {
	u := objectOf("rbac.authorization.k8s.io/v1", "ClusterRole", "", roleName(source), map[string]string{
		quotav1alpha1.LabelImportedFrom: source, quotav1alpha1.LabelAggregateToOperator: "true",
	})
	rule := func(group string, resources ...any) any {
		return map[string]any{"apiGroups": []any{group}, "resources": resources, "verbs": []any{"get", "list", "watch"}}
	}
	rules := []any{rule(consumerGroup, consumersAPI.Resource)}
	for _, resource := range p.followed {
		rules = append(rules, rule(resource.Group, resource.Resource))
	}
	u.Object["rules"] = rules
	return u
}
