package operations

import "testing"

// TestDefinitionsAreBroughtUpToDate starts an operator on the definitions of another version. It replaces the
// definitions, and leaves all objects under them.
func TestDefinitionsAreBroughtUpToDate(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.installPlatform()
	c.must(documented(t, "tasks/install.md", "stop"))
	const column = `kubectl get customresourcedefinition resourcegrants.quota.miloapis.com -o jsonpath='{.spec.versions[0].additionalPrinterColumns[0].name}' | grep .`
	c.must(column)
	c.must(`kubectl patch customresourcedefinition resourcegrants.quota.miloapis.com --type=json -p '[{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]'`)
	if output, err := c.shell(column); err == nil {
		t.Fatalf("the definition is not an older one: %s", output)
	}
	c.start()
	c.must(column)
	c.must("kubectl get resourcegrants -n bursar-system acme-starter")
}
