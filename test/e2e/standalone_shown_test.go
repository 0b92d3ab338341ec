package e2e

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
)

// inOrganizations shows the quota of organizations in namespaces of their own.
var inOrganizations = []config.ConsumerNamespace{{APIGroup: platform.Group, Kind: platform.Kind, Namespace: "organization-{{name}}"}}

// wantShown waits until there is one effective grant and one bucket, in that namespace and with that limit.
func wantShown(t *testing.T, api client.Client, namespace string, limit int64) {
	t.Helper()
	eventually(t, func() error {
		var buckets quotav1alpha1.AllowanceBucketList
		var effective quotav1alpha1.EffectiveResourceGrantList
		if err := errors.Join(api.List(t.Context(), &buckets), api.List(t.Context(), &effective)); err != nil {
			return err
		}
		if len(effective.Items) != 1 || effective.Items[0].Namespace != namespace || effective.Items[0].Status.TotalLimit != limit {
			return fmt.Errorf("effective grants: %+v, want one in namespace %s with a limit of %d", effective.Items, namespace, limit)
		}
		if len(buckets.Items) != 1 || buckets.Items[0].Namespace != namespace || buckets.Items[0].Status.Limit != limit {
			return fmt.Errorf("buckets: %+v, want one in namespace %s with a limit of %d", buckets.Items, namespace, limit)
		}
		return nil
	})
}

// TestViewMovesWithTheConfiguration starts a server again with another namespace for its consumers. Nothing stays in
// the former one, because nobody would keep it up to date.
func TestViewMovesWithTheConfiguration(t *testing.T) {
	t.Parallel()
	options := standalone.Options{Quota: config.Quota{SystemNamespace: ledgersNamespace}, DataDir: t.TempDir()}
	grant := teamGrant()
	t.Run("before", func(t *testing.T) {
		api := start(t, options).Admin
		if err := platform.Install(t.Context(), api); err != nil {
			t.Fatal(err)
		}
		create(t, api, teamRegistration(), grant, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "organization-acme"}})
		wantShown(t, api, ledgersNamespace, 1)
	})
	t.Run("moved", func(t *testing.T) {
		options.ConsumerNamespaces = inOrganizations
		api := start(t, options).Admin
		wantShown(t, api, "organization-acme", 1)
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(grant), grant); err != nil {
			t.Fatal(err)
		}
		grant.Spec.Allowances[0].Buckets[0].Amount = 7
		if err := api.Update(t.Context(), grant); err != nil {
			t.Fatal(err)
		}
		wantShown(t, api, "organization-acme", 7)
	})
	t.Run("moved back", func(t *testing.T) {
		options.ConsumerNamespaces = nil
		wantShown(t, start(t, options).Admin, ledgersNamespace, 7)
	})
}

// TestConsumerWithoutNamespace grants something to a consumer without an existing namespace for its quota.
func TestConsumerWithoutNamespace(t *testing.T) {
	t.Parallel()
	api := start(t, standalone.Options{Quota: config.Quota{SystemNamespace: ledgersNamespace, ConsumerNamespaces: inOrganizations}}).Admin
	if err := platform.Install(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	base, more := teamGrant(), teamGrant()
	more.Name = "more"
	create(t, api, teamRegistration(), base)
	wantTold(t, api, base)
	create(t, api, more) // Bursar looks at the quota again
	wantTold(t, api, more)
	wantTold(t, api, base)

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "organization-acme"}}
	create(t, api, namespace)
	wantShown(t, api, namespace.Name, 2)

	if err := api.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	waitNotFound(t, api, removal, namespace)
	create(t, api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name}})
	wantShown(t, api, namespace.Name, 2)
}

// wantTold waits for an event on a grant about the missing namespace, and checks for exactly one.
func wantTold(t *testing.T, api client.Client, grant *quotav1alpha1.ResourceGrant) {
	t.Helper()
	eventually(t, func() error {
		var list eventsv1.EventList
		if err := api.List(t.Context(), &list, client.InNamespace(grant.Namespace)); err != nil {
			return err
		}
		told := 0
		for i := range list.Items {
			event := &list.Items[i]
			if event.Regarding.Kind != "ResourceGrant" || event.Regarding.UID != grant.UID {
				continue
			}
			const note = "Namespace organization-acme for the quota of Organization acme does not exist; create it"
			if event.Type != corev1.EventTypeWarning || event.Reason != "NamespaceMissing" || event.Note != note || event.Series != nil {
				t.Fatalf("the event on grant %s is %+v, want one warning that says %q", grant.Name, event, note)
			}
			told++
		}
		switch {
		case told > 1:
			t.Fatalf("there are %d events on grant %s, want one", told, grant.Name)
		case told == 0:
			return fmt.Errorf("there is no event on grant %s", grant.Name)
		}
		return nil
	})
}
