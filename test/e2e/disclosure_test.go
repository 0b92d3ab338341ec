package e2e

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// A policy would show its author the contents of objects, so the author needs the right to read them.
func TestAuthorsReadTheirTriggers(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	author := w.newAccount("author")
	w.bind(author.user, "bursar-platform-admin", "")
	w.waitMay(author.user, attributesOf("claimcreationpolicies.quota.miloapis.com", "create", ""))
	api := w.as(author, rest.ImpersonationConfig{})
	spying := w.newPolicy(w.name + "-spying")
	spying.Spec.Trigger.Resource.APIVersion, spying.Spec.Trigger.Resource.Kind = "v1", "Secret"
	err := api.Create(w.ctx, spying.DeepCopy())
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not get objects of kind Secret in all namespaces") {
		t.Errorf("who may not read Secrets writes a policy that does: %v", err)
	}
	w.bind(author.user, "admin", "")
	w.waitMay(author.user, attributesOf("secrets", "get", ""))
	if err := api.Create(w.ctx, spying); err != nil {
		t.Errorf("who may read Secrets writes a policy on them: %v", err)
	}
	w.mustDelete(spying)
}
