package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// systemObject is an object that Kubernetes itself makes in the namespaces of tenants. If quota denies it, something of
// the tenant stops working, and nobody sees a denial.
type systemObject struct {
	kind schema.GroupKind
	// name is the name of the object, or empty if it has any. maker is the controller that makes it.
	name, maker string
	// what names the object and says when Kubernetes makes it, and loss what does not work without it. condition leaves
	// it out.
	what, loss, condition string
}

const makersPrefix = serviceaccount.ServiceAccountUsernamePrefix + metav1.NamespaceSystem + serviceaccount.ServiceAccountUsernameSeparator

// notByKubernetes leaves out the objects of Kubernetes' controllers, whatever their names.
const notByKubernetes = `!user.name.startsWith("` + makersPrefix + `")`

var systemObjects = []systemObject{
	{
		schema.GroupKind{Kind: "ConfigMap"}, "kube-root-ca.crt", "root-ca-cert-publisher",
		"ConfigMap kube-root-ca.crt, which Kubernetes makes in every namespace", "no Pod starts there", `trigger.metadata.name != "kube-root-ca.crt"`,
	},
	{
		schema.GroupKind{Kind: "ServiceAccount"}, "default", "service-account-controller",
		"ServiceAccount default, which Kubernetes makes in every namespace", "no Pod starts there", `trigger.metadata.name != "default"`,
	},
	{
		schema.GroupKind{Kind: "Endpoints"}, "", "endpoint-controller",
		"Endpoints, which Kubernetes makes for every Service", "the Service reaches no Pod", notByKubernetes,
	},
	{
		schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}, "", "endpointslice-controller",
		"EndpointSlices, which Kubernetes makes for every Service", "the Service reaches no Pod", notByKubernetes,
	},
	{
		schema.GroupKind{Group: "apps", Kind: "ControllerRevision"}, "", "statefulset-controller",
		"ControllerRevisions, which Kubernetes makes for every change of a StatefulSet or DaemonSet", "the change does not roll out", notByKubernetes,
	},
}

// SystemObjects warns of objects of Kubernetes that a policy counts, with the condition to leave them out.
func SystemObjects(ctx context.Context, policy *quotav1alpha1.ClaimCreationPolicy) []string {
	trigger := policy.Spec.Trigger
	kind := schema.FromAPIVersionAndKind(trigger.Resource.APIVersion, trigger.Resource.Kind)
	var warnings []string
	for _, each := range systemObjects {
		if each.kind == kind.GroupKind() && !each.isLeftOut(ctx, policy, kind) {
			warnings = append(warnings, fmt.Sprintf("the policy also counts %s. Without quota they are denied, and then %s. Leave them out with the condition %s",
				each.what, each.loss, each.condition))
		}
	}
	return warnings
}

// isLeftOut reports whether a condition of the policy excludes the object in every namespace. It tries each condition
// alone, because the others may depend on the namespace.
func (s *systemObject) isLeftOut(ctx context.Context, policy *quotav1alpha1.ClaimCreationPolicy, kind schema.GroupVersionKind) bool {
	for _, condition := range slices.Concat(policy.Spec.Trigger.Conditions, policy.Spec.Trigger.Constraints) {
		if strings.Contains(condition.Expression, varNamespace) {
			if s.name != "" && strings.Contains(condition.Expression, s.name) {
				return true
			}
			continue
		}
		alone := policy.DeepCopy()
		alone.Spec.Trigger.Conditions, alone.Spec.Trigger.Constraints = []quotav1alpha1.ConditionExpression{condition}, nil
		compiled, errs := Compile(alone)
		if len(errs) > 0 {
			return true // the author gets these
		}
		if matches, err := compiled.Matches(ctx, s.input(kind)); err == nil && !matches {
			return true
		}
	}
	return false
}

// input is the create of the object.
func (s *systemObject) input(kind schema.GroupVersionKind) Input {
	const namespace = "tenant"
	name := s.name
	if name == "" {
		name = "made-by-kubernetes"
	}
	user := makersPrefix + s.maker
	return Input{
		Object: map[string]any{
			"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
			"metadata": map[string]any{"name": name, "namespace": namespace, "uid": "made-by-kubernetes"},
		},
		User:        UserInfo{Name: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}},
		RequestInfo: RequestInfo{Verb: "create", APIGroup: kind.Group, APIVersion: kind.Version, Namespace: namespace, Name: name},
	}
}
