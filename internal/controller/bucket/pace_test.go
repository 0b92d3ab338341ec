package bucket

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// The promise: buckets show a change after a quiet time within a second, further ones of the consumer every few
// seconds, and 10 consumers a second after a burst of 200.
const (
	human        = time.Second
	interludeMin = 3 * time.Second
	perSecond    = 10
	burst        = 200
)

// busyLedgers are the ledgers of many consumers, and record the time of each read: once for each publication.
type busyLedgers struct {
	mu      sync.Mutex
	ledgers map[quotav1alpha1.ConsumerRef]*ledger.Ledger
	changed map[quotav1alpha1.ConsumerRef]time.Time
	read    map[quotav1alpha1.ConsumerRef][]time.Time
	charges int
}

func newBusyLedgers() *busyLedgers {
	return &busyLedgers{
		ledgers: map[quotav1alpha1.ConsumerRef]*ledger.Ledger{}, changed: map[quotav1alpha1.ConsumerRef]time.Time{},
		read: map[quotav1alpha1.ConsumerRef][]time.Time{},
	}
}

func (b *busyLedgers) View(_ context.Context, consumer quotav1alpha1.ConsumerRef, f func(*ledger.Ledger)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read[consumer] = append(b.read[consumer], time.Now())
	f(b.ledgers[consumer])
	return nil
}

// change changes a consumer's ledger, and reports the change to the controller as the store does.
func (b *busyLedgers) change(c *Controller, consumer quotav1alpha1.ConsumerRef, charges ...ledger.Charge) {
	b.mu.Lock()
	l := b.ledgers[consumer]
	if l == nil {
		l = ledger.New()
		b.ledgers[consumer] = l
	}
	if len(charges) > 0 {
		b.charges++
		l.ReserveOverdraft(ledger.Reservation{Key: strconv.Itoa(b.charges), Charges: charges})
	}
	b.changed[consumer] = time.Now()
	b.mu.Unlock()
	c.Changed(consumer, ledgerstore.Change{})
}

// charge charges a consumer.
func (b *busyLedgers) charge(c *Controller, consumer quotav1alpha1.ConsumerRef) {
	b.change(c, consumer, ledger.Charge{ResourceType: "cpu", Amount: 1})
}

func (b *busyLedgers) reads(consumer quotav1alpha1.ConsumerRef) []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]time.Time(nil), b.read[consumer]...)
}

// statusWrites counts the writes of statuses, and fails them with err, if not nil.
type statusWrites struct {
	mu     sync.Mutex
	byKind map[string]int
	err    error
}

func (s *statusWrites) of(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKind[kind]
}

// lead runs the controller of a leader, in the bubble of a test.
func lead(t *testing.T, ledgers *busyLedgers) (*Controller, *statusWrites) {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), quotav1alpha1.AddToScheme(scheme)))
	writes := &statusWrites{byKind: map[string]int{}}
	api := fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&quotav1alpha1.AllowanceBucket{}, &quotav1alpha1.EffectiveResourceGrant{}).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "system"}}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, api client.Client, part string, object client.Object, options ...client.SubResourceUpdateOption) error {
			writes.mu.Lock()
			writes.byKind[fmt.Sprintf("%T", object)]++
			err := writes.err
			writes.mu.Unlock()
			if err != nil {
				return err
			}
			return api.SubResource(part).Update(ctx, object, options...)
		}}).Build()
	c := &Controller{Client: api, Catalog: catalog.New(), Ledgers: ledgers, SystemNamespace: "system", Log: logr.Discard()}
	c.Start()
	must(t, c.IndexExisting(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return c, writes
}

const (
	bucketKind    = "*v1alpha1.AllowanceBucket"
	effectiveKind = "*v1alpha1.EffectiveResourceGrant"
)

// wantPublished fails unless the bucket and the effective grant of acme have an amount.
func wantPublished(t *testing.T, c *Controller, when string, want int) {
	t.Helper()
	synctest.Wait()
	var buckets quotav1alpha1.AllowanceBucketList
	var effective quotav1alpha1.EffectiveResourceGrantList
	must(t, errors.Join(c.Client.List(t.Context(), &buckets), c.Client.List(t.Context(), &effective)))
	if len(buckets.Items) != 1 || len(effective.Items) != 1 {
		t.Fatalf("%s: there are %d buckets and %d effective grants, want one each", when, len(buckets.Items), len(effective.Items))
	}
	if got, total := buckets.Items[0].Status.Allocated, effective.Items[0].Status.TotalAllocated; got != int64(want) || total != int64(want) {
		t.Errorf("%s: the bucket has %d and the effective grant %d, want %d", when, got, total, want)
	}
}

// The controller publishes a consumer soon after a quiet time, at a human pace under load, and right in the end.
func TestConsumerIsPublishedAtAHumanPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const load, each = time.Minute, 50 * time.Millisecond
		ledgers := newBusyLedgers()
		c, writes := lead(t, ledgers)
		ledgers.charge(c, acme)
		ledgers.charge(c, acme)
		time.Sleep(human)
		wantPublished(t, c, "after the first change", 2)
		if got := writes.of(bucketKind); got != 1 {
			t.Errorf("two changes at once cost %d writes of the bucket, want 1", got)
		}

		charges := 2
		for range load / each {
			ledgers.charge(c, acme)
			charges++
			time.Sleep(each)
		}
		for _, kind := range []string{bucketKind, effectiveKind} {
			if got, most := writes.of(kind), int(load/interludeMin)+2; got > most || got < most/2 {
				t.Errorf("%d charges in %s cost %d writes of %s, want at most %d, and at least half of that", charges, load, got, kind, most)
			}
		}
		time.Sleep(interludeMin)
		wantPublished(t, c, "after the load", charges)

		before := len(ledgers.reads(acme))
		time.Sleep(time.Minute)
		if after := len(ledgers.reads(acme)); after != before {
			t.Errorf("a quiet consumer was published %d times", after-before)
		}
		ledgers.charge(c, acme)
		time.Sleep(human)
		wantPublished(t, c, "after a quiet time", charges+1)
	})
}

// A consumer waits for its interval, however it comes into the queue.
func TestNothingGoesRoundThePace(t *testing.T) {
	bucket := &quotav1alpha1.AllowanceBucket{Spec: quotav1alpha1.AllowanceBucketSpec{ConsumerRef: acme, ResourceType: "cpu"}}
	tests := map[string]struct {
		reason string
		fail   bool
		most   int // in a minute, or 0
		again  func(*busyLedgers, *Controller)
	}{
		"publish":       {reason: "registrations and namespaces may change often", again: func(_ *busyLedgers, c *Controller) { c.Publish(acme) }},
		"deleted":       {reason: "somebody deletes the bucket again and again", again: func(_ *busyLedgers, c *Controller) { c.deleted(bucket) }},
		"failures":      {reason: "a failed write is no reason for more", fail: true, again: func(b *busyLedgers, c *Controller) { b.charge(c, acme) }},
		"only failures": {reason: "nothing else happens, and the delay doubles", fail: true, most: 6, again: func(*busyLedgers, *Controller) {}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledgers := newBusyLedgers()
				c, writes := lead(t, ledgers)
				if tt.fail {
					writes.err = errors.New("the API server is busy")
				}
				ledgers.charge(c, acme)
				for range 600 {
					tt.again(ledgers, c)
					time.Sleep(100 * time.Millisecond)
				}
				reads := ledgers.reads(acme)
				if len(reads) < 2 || tt.most > 0 && len(reads) > tt.most {
					t.Fatalf("%s: it was published %d times, want 2 to %d", tt.reason, len(reads), tt.most)
				}
				for n := range reads[1:] {
					if between := reads[n+1].Sub(reads[n]); between < interludeMin {
						t.Fatalf("%s: it was published again after %s, want %s or more", tt.reason, between, interludeMin)
					}
				}
			})
		})
	}
}

// A registration changes just after a publication. The buckets show it at the end of the interval, without another
// change.
func TestEarlyPublicationIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledgers := newBusyLedgers()
		c, _ := lead(t, ledgers)
		ledgers.charge(c, acme)
		time.Sleep(human)
		c.Publish(acme)
		time.Sleep(interludeMin)
		if got := len(ledgers.reads(acme)); got != 2 {
			t.Errorf("it was published %d times, want 2", got)
		}
	})
}

// The controller publishes many busy consumers at a bounded rate, each in its turn, and a quiet one does not wait for
// them.
func TestAllConsumersArePublishedAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const busy, seconds = 150, 90
		ledgers := newBusyLedgers()
		c, _ := lead(t, ledgers)
		consumerOf := func(n int) quotav1alpha1.ConsumerRef {
			consumer := acme
			consumer.Name = fmt.Sprintf("busy-%d", n)
			return consumer
		}
		ledgers.change(c, acme)
		for second := range seconds {
			for n := range busy {
				ledgers.change(c, consumerOf(n))
			}
			if second == seconds*2/3 {
				ledgers.change(c, acme)
			}
			time.Sleep(time.Second)
		}
		quiet := ledgers.reads(acme)
		if len(quiet) != 2 || quiet[1].Sub(ledgers.changed[acme]) > human {
			t.Errorf("a quiet consumer that changed at %s was published at %s, want within a second", ledgers.changed[acme], quiet)
		}
		total := 0
		for n := range busy {
			reads := ledgers.reads(consumerOf(n))
			total += len(reads)
			const longest = 2 * busy / perSecond * time.Second
			if since := time.Since(reads[len(reads)-1]); since > longest {
				t.Errorf("busy consumer %d was not published for %s, want its turn after %s", n, since, longest)
			}
		}
		if most := burst + perSecond*(seconds+1); total > most {
			t.Errorf("%d publications in %s, want at most %d", total, seconds*time.Second, most)
		}
		t.Logf("%d busy consumers in %d seconds: %d publications", busy, seconds, total)

		time.Sleep(busy/perSecond*time.Second + interludeMin)
		for n := range busy {
			reads := ledgers.reads(consumerOf(n))
			if consumer := consumerOf(n); !reads[len(reads)-1].After(ledgers.changed[consumer]) {
				t.Errorf("the last change of busy consumer %d was not published", n)
			}
		}
	})
}
