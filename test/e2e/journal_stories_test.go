package e2e

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/overapi"
)

// journalOf reads the journal of the world's consumer with the rights of a user.
func (w *world) journalOf(user client.Client) ([]journal.Entry, error) {
	var all []journal.Entry
	source := &overapi.Source{API: user, Namespace: config.DefaultSystemNamespace}
	for entry, err := range source.Entries(w.ctx, journal.Query{Consumer: new(w.consumer())}) {
		if err != nil {
			return nil, err
		}
		all = append(all, entry)
	}
	return all, nil
}

// limitChange is a change of a limit, with its author.
type limitChange struct {
	Actor    string
	From, To int64
}

// journalStories are those of people asking about the past: the tenant, the approver, and an auditor with only the
// rights of bursar-journal-reader.
func (w *world) journalStories(tenantName, approverName string) {
	w.Helper()
	readerName := w.name + "-journal"
	w.bind(readerName, "bursar-journal-reader", "")
	w.waitMay(readerName, authorizationv1.ResourceAttributes{Verb: "get", Group: quotav1alpha1.GroupName, Version: "*", Resource: "consumerledgers"})
	reader, tenant := w.clientOf(readerName), w.clientOf(tenantName)

	// An auditor reads each change of a limit with its author, and each charge with its user.
	eventually(w, func() error {
		entries, err := w.journalOf(reader)
		if err != nil {
			return err
		}
		var limits []limitChange
		created := map[string]string{}
		for i := range entries {
			switch e := &entries[i]; e.Kind {
			case journal.LimitChanged:
				limits = append(limits, limitChange{e.Actor, e.Limit - e.Change, e.Limit})
			case journal.Admitted:
				created[e.Object.Name] = e.Actor
			}
		}
		// Bursar makes the grant of a request, on behalf of the decider.
		want := []limitChange{{"admin", 0, 2}, {approverName, 2, 3}}
		wantCreated := map[string]string{"a": tenantName, "b": tenantName, "c": tenantName, "d": tenantName}
		if diff := cmp.Diff(want, limits) + cmp.Diff(wantCreated, created); diff != "" {
			return fmt.Errorf("what an auditor reads differs (-want +got):\n%s", diff)
		}
		return nil
	})
	// An auditor may do nothing else.
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &quotav1alpha1.ResourceGrantList{}, &quotav1alpha1.ResourceClaimList{}} {
		if err := reader.List(w.ctx, list); !apierrors.IsForbidden(err) {
			w.Errorf("somebody who may only read journals lists %T: %v", list, err)
		}
	}
	// A tenant, and an approver, see the changes of the quota, but not their authors.
	for name, user := range map[string]client.Client{tenantName: tenant, approverName: w.clientOf(approverName)} {
		entries, err := w.journalOf(user)
		must(w, err)
		last := &entries[len(entries)-1]
		if last.Limit != 3 || last.Used != 3 {
			w.Errorf("%s reads that %d of %d are used", name, last.Used, last.Limit)
		}
		for i := range entries {
			e := &entries[i]
			if e.Actor != "" {
				w.Errorf("%s reads that %s was by %s", name, e.ID(), e.Actor)
			}
			if e.Kind == journal.Admitted && e.Object == nil {
				w.Errorf("%s does not see the object of %+v", name, *e)
			}
		}
	}
	w.attackJournals(tenant)
}

// attackJournals has a tenant try to read the journal of a consumer with its quota in another namespace.
func (w *world) attackJournals(tenant client.Client) {
	w.Helper()
	other := quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Project", Name: w.name + "-other"}
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other.Name}})
	ask := func(namespace string, spec quotav1alpha1.QuotaHistorySpec) (*quotav1alpha1.QuotaHistoryStatus, error) {
		history := &quotav1alpha1.QuotaHistory{ObjectMeta: metav1.ObjectMeta{GenerateName: "attack-", Namespace: namespace}, Spec: spec}
		err := tenant.Create(w.ctx, history, client.DryRunAll)
		return history.Status, err
	}
	own, err := ask(config.DefaultSystemNamespace, quotav1alpha1.QuotaHistorySpec{ConsumerRef: w.consumer(), Limit: 1})
	must(w, err)
	if own.Continue == "" {
		w.Fatal("the first of several entries has no next page")
	}
	for name, err := range map[string]error{
		"in the own namespace":      second(ask(w.name, quotav1alpha1.QuotaHistorySpec{ConsumerRef: other})),
		"in the system namespace":   second(ask(config.DefaultSystemNamespace, quotav1alpha1.QuotaHistorySpec{ConsumerRef: other})),
		"in the other's namespace":  second(ask(other.Name, quotav1alpha1.QuotaHistorySpec{ConsumerRef: other})),
		"by the ledgers themselves": tenant.List(w.ctx, &quotav1alpha1.ConsumerLedgerList{}),
	} {
		if !apierrors.IsForbidden(err) {
			w.Errorf("a tenant asks for the journal of another consumer %s: got %v, want it to be forbidden", name, err)
		}
	}
	// Anybody's token for one consumer does not lead to another consumer.
	for name, user := range map[string]client.Client{"a tenant": tenant, "an administrator": admin} {
		history := &quotav1alpha1.QuotaHistory{ObjectMeta: metav1.ObjectMeta{GenerateName: "attack-", Namespace: config.DefaultSystemNamespace}, Spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: other, Continue: own.Continue}}
		if err := user.Create(w.ctx, history, client.DryRunAll); !apierrors.IsBadRequest(err) || history.Status != nil {
			w.Errorf("%s uses a token of another consumer: got %v, want it to be rejected", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
