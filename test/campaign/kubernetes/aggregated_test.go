package kubernetes

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/test/guide"
)

// aggregation registers the example of an aggregated API server. As there is no network of Pods, its Service names the
// host.
const aggregation = `
apiVersion: v1
kind: Namespace
metadata: {name: wardle}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: apiserver, namespace: wardle}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: wardle}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: wardle-auth-delegator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:auth-delegator'}
subjects: [{kind: ServiceAccount, name: apiserver, namespace: wardle}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: wardle-auth-reader, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: apiserver, namespace: wardle}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: wardle}
rules:
- {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations, validatingadmissionpolicies, validatingadmissionpolicybindings, mutatingadmissionpolicies, mutatingadmissionpolicybindings]
  verbs: [get, list, watch]
- {apiGroups: [flowcontrol.apiserver.k8s.io], resources: [prioritylevelconfigurations, flowschemas], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: wardle}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: wardle}
subjects: [{kind: ServiceAccount, name: apiserver, namespace: wardle}]
`

const apiService = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: %[1]s.wardle.example.com}
spec:
  group: wardle.example.com
  version: %[1]s
  groupPriorityMinimum: 1000
  versionPriority: 15
  insecureSkipTLSVerify: true
  service: {name: api, namespace: wardle, port: %[2]s}
---
`

// testAggregated follows the README of the example, with the kinds of an aggregated API server.
func testAggregated(n *team) {
	n.kubectl(n.T, aggregation, "apply", "--server-side", "--filename", "-")
	_, port, _ := strings.Cut(n.StartAggregated("wardle", "apiserver"), ":")
	services := fmt.Sprintf(apiService, "v1alpha1", port) + fmt.Sprintf(apiService, "v1beta1", port)
	n.kubectl(n.T, services, "apply", "--server-side", "--filename", "-")
	n.kubectl(n.T, "", "wait", "--for=condition=Available", "--timeout=1m", "apiservices/v1alpha1.wardle.example.com", "apiservices/v1beta1.wardle.example.com")
	n.Cleanup(func() {
		if n.Failed() {
			stdout, _, _ := n.Cluster.Kubectl("", "get", "claimcreationpolicies", "flunders", "-o", "yaml")
			n.Logf("the policy is\n%s", stdout)
		}
	})
	if texts := guide.Follow(n.T, "examples/aggregated/README.md", n.Servers[0].Kubeconfig("admin", "system:masters")); texts != 1 {
		n.Errorf("%d texts were compared, want 1", texts)
	}
}
