package caution_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/caution"
)

// cluster is an API server with some kinds of Kubernetes.
func cluster() *caution.Adviser {
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}})
	for _, kind := range []string{"Pod", "Secret", "ConfigMap", "ServiceAccount"} {
		mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, apimeta.RESTScopeNamespace)
	}
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Node"}, apimeta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, apimeta.RESTScopeNamespace)
	return &caution.Adviser{Mapper: mapper}
}

func TestQuotaNames(t *testing.T) {
	const none = ""
	for name, want := range map[string]string{
		"pods": none, "cpu": none, "requests.storage": none, "count/secrets": none, "count/deployments.apps": none, "requests.nvidia.com/gpu": none,
		"gold.storageclass.storage.k8s.io/requests.storage": none, "gold.storageclass.storage.k8s.io/persistentvolumeclaims": none,
		"gpu.deviceclass.resource.k8s.io/devices": none, "hugepages-2Mi": none,
		"count/deployments":      "the API server serves no resource deployments; name it count/deployments.apps",
		"count/secret":           "the API server serves no resource secret; name it count/secrets",
		"count/Secrets":          "the API server serves no resource Secrets; name it count/secrets",
		"count/deploymnets.apps": "the API server serves no resource deploymnets.apps so far; name it as count/RESOURCE.GROUP, such as count/deployments.apps",
		"count/nodes":            "nodes are in no namespace",
		"limits.nvidia.com/gpu":  "Kubernetes counts the requests of extended resources only; name it requests.nvidia.com/gpu",
		"nvidia.com/gpu":         "Kubernetes counts the requests of extended resources; name it requests.nvidia.com/gpu",
		"gold.storageclas.storage.k8s.io/requests.storage": "a limit for a storage class is CLASS.storageclass.storage.k8s.io/requests.storage",
	} {
		var wanted []string
		if want != none {
			wanted = []string{name + " limits nothing: " + want}
		}
		if diff := cmp.Diff(wanted, cluster().QuotaNames(corev1.ResourceList{corev1.ResourceName(name): {}})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A policy that counts objects of Kubernetes itself gets the condition to leave them out, and is fine with it.
func TestSystemObjects(t *testing.T) {
	for name, tt := range map[string]struct {
		reason, apiVersion, kind, condition, want string
	}{
		"ConfigMap":      {"every namespace has it", "v1", "ConfigMap", "", `Leave them out with the condition trigger.metadata.name != "kube-root-ca.crt"`},
		"LeftOut":        {"its name is excluded", "v1", "ConfigMap", `trigger.metadata.name != "kube-root-ca.crt"`, ""},
		"Labelled":       {"it has no labels", "v1", "ConfigMap", `trigger.metadata.?labels["counted"].orValue("") == "true"`, ""},
		"OfPeople":       {"its maker is excluded", "v1", "ConfigMap", `!user.name.startsWith("system:")`, ""},
		"SomeNamespaces": {"it is in every selected namespace, too", "v1", "ConfigMap", `namespaceObject.metadata.?labels["team"].hasValue()`, "kube-root-ca.crt"},
		"Account":        {"Pods need it", "v1", "ServiceAccount", "", `trigger.metadata.name != "default"`},
		"Slices":         {"Services need them", "discovery.k8s.io/v1", "EndpointSlice", "", `!user.name.startsWith("system:serviceaccount:kube-system:")`},
		"Revision":       {"rollouts need it", "apps/v1", "ControllerRevision", "", "the change does not roll out"},
		"Other":          {"only tenants make it", "v1", "Secret", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &quotav1alpha1.ClaimCreationPolicy{}
			p.Name = "p"
			p.Spec.Trigger.Resource.APIVersion, p.Spec.Trigger.Resource.Kind = tt.apiVersion, tt.kind
			if tt.condition != "" {
				p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: tt.condition}}
			}
			template := &p.Spec.Target.ResourceClaimTemplate.Spec
			template.ConsumerRef = quotav1alpha1.ConsumerRef{Kind: "Namespace", Name: "{{.trigger.metadata.namespace}}"}
			got := strings.Join(cluster().SystemObjects(t.Context(), p), "\n")
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
			if got := world(t).SystemObjects(t.Context(), p); len(got) > 0 {
				t.Errorf("without Pods: got %q, want nothing", got)
			}
		})
	}
}
