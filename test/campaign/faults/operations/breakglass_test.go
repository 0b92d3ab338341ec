package operations

import (
	"fmt"
	"testing"
)

// users is a kind with the name "users". Kubernetes uses the same name in its rules.
const users = `
kubectl create -f - <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: users.iam.example.com}
spec:
  group: iam.example.com
  scope: Cluster
  names: {kind: User, plural: users}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
END
kubectl wait --for=condition=Established --timeout=60s crd/users.iam.example.com
`

// TestBreakGlass permits somebody to break the glass, and does so, in the words of the guide.
func TestBreakGlass(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.must("kubectl apply -f deploy/rbac/break-glass.yaml")
	c.installPlatform()
	c.must(users)
	c.must(documented(t, "tasks/break-the-glass.md", "permit break-glass"))
	for _, who := range []string{"resource: users, name: alice", "resource: groups, name: 'quota.miloapis.com:break-glass'"} {
		c.eventually(func() error { // once the API server has seen the new rules
			allowed := c.must(fmt.Sprintf(`
kubectl create -o jsonpath='{.status.allowed}' -f - <<END
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: alice, resourceAttributes: {verb: impersonate, %s}}
END`, who))
			if allowed != "true" {
				return fmt.Errorf("alice may impersonate %s: %q", who, allowed)
			}
			return nil
		})
	}
	c.must(create + "mobile.yaml")
	c.refused(create+"data.yaml", "used: 2, limited: 2")
	c.must(fmt.Sprintf("cp examples/quickstart/project-data.yaml %[1]s/project.yaml; cd %[1]s; %[2]s", t.TempDir(), documented(t, "tasks/break-the-glass.md", "break the glass")))
}
