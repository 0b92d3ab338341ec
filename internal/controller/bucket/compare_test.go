package bucket

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

// steady lends an unchanging ledger.
type steady struct{ ledger *ledger.Ledger }

func (s steady) View(_ context.Context, _ quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	f(s.ledger)
	return nil
}

// A new leader queues the consumers with other buckets than in their listed ledger, and writes nothing itself.
func TestCompare(t *testing.T) {
	granted := map[string]ledger.Amount{"base": 10}
	tests := map[string]struct {
		reason string
		change func(*testing.T, client.Client)
		ledger *ledger.Ledger
		want   int // in the queue
	}{
		"same":         {reason: "nothing has to be written", ledger: ledgerOf(t, granted, 3, 1)},
		"other ledger": {reason: "it changed while nobody led", ledger: ledgerOf(t, granted, 4, 1), want: 1},
		"no grants":    {reason: "the last grant went", ledger: ledgerOf(t, nil, 3, 1), want: 1},
		"empty":        {reason: "the ledger was emptied", ledger: ledger.New(), want: 1},
		"other status": {reason: "somebody wrote it who does not know better", ledger: ledgerOf(t, granted, 3, 1), change: func(t *testing.T, api client.Client) {
			var buckets quotav1alpha1.AllowanceBucketList
			must(t, api.List(t.Context(), &buckets))
			buckets.Items[0].Status.Limit++
			must(t, api.Status().Update(t.Context(), &buckets.Items[0]))
		}, want: 1},
		"no bucket": {reason: "it was deleted", ledger: ledgerOf(t, granted, 3, 1), change: func(t *testing.T, api client.Client) {
			must(t, api.DeleteAllOf(t.Context(), &quotav1alpha1.AllowanceBucket{}, client.InNamespace("system")))
		}, want: 1},
		"nothing": {reason: "it was never shown", ledger: ledgerOf(t, granted, 3, 1), change: func(t *testing.T, api client.Client) {
			must(t, api.DeleteAllOf(t.Context(), &quotav1alpha1.AllowanceBucket{}, client.InNamespace("system")))
			must(t, api.DeleteAllOf(t.Context(), &quotav1alpha1.EffectiveResourceGrant{}, client.InNamespace("system")))
		}, want: 1},
	}
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), quotav1alpha1.AddToScheme(scheme)))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientBuilder().WithScheme(scheme).
				WithStatusSubresource(&quotav1alpha1.AllowanceBucket{}, &quotav1alpha1.EffectiveResourceGrant{}).
				WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "system"}}).Build()
			start := func() *Controller {
				c := &Controller{Client: api, Catalog: catalog.New(), Ledgers: steady{ledgerOf(t, granted, 3, 1)}, SystemNamespace: "system"}
				c.Start()
				return c
			}
			must(t, start().publish(t.Context(), acme))
			if tt.change != nil {
				tt.change(t, api)
			}
			before := versions(t, api)
			c := start()
			must(t, c.IndexExisting(t.Context()))
			c.Compare(t.Context(), acme, tt.ledger.Snapshot())
			c.PublishOthers()
			if got := c.queue.Len(); got != tt.want {
				t.Errorf("%s: %d consumers are to be shown, want %d", tt.reason, got, tt.want)
			}
			if after := versions(t, api); after != before {
				t.Errorf("%s: %q was written, now it is %q", tt.reason, before, after)
			}
		})
	}
}

// The controller takes changes once this replica leads, and queues consumers with buckets and without a ledger.
func TestIndexExisting(t *testing.T) {
	scheme := runtime.NewScheme()
	must(t, quotav1alpha1.AddToScheme(scheme))
	c := &Controller{
		Client:  fake.NewClientBuilder().WithScheme(scheme).WithObjects(subject{consumer: acme, resourceType: "cpu", namespace: "system"}.newEffectiveGrant()).Build(),
		Catalog: catalog.New(), SystemNamespace: "system",
	}
	c.Start()
	must(t, c.IndexExisting(t.Context()))
	c.PublishOthers()
	c.PublishOthers()
	if got := c.queue.Len(); got != 1 {
		t.Errorf("%d consumers are to be shown, want the one without a ledger", got)
	}
}

// versions returns all published objects with their versions. These change with every write.
func versions(t *testing.T, api client.Client) string {
	t.Helper()
	var buckets quotav1alpha1.AllowanceBucketList
	var effective quotav1alpha1.EffectiveResourceGrantList
	must(t, errors.Join(api.List(t.Context(), &buckets), api.List(t.Context(), &effective)))
	var all string
	for i := range buckets.Items {
		all += buckets.Items[i].Name + "@" + buckets.Items[i].ResourceVersion + " "
	}
	for i := range effective.Items {
		all += effective.Items[i].Name + "@" + effective.Items[i].ResourceVersion + " "
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
