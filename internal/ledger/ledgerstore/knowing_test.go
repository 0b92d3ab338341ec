package ledgerstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// Whoever observes the object of an admission from a slice first, the journal has one admission of it, by its author.
func TestJournalNamesAuthorsOfSlices(t *testing.T) {
	type observers struct{ holder, other *inventoryOf }
	tests := map[string]struct {
		reason   string
		policies ledger.Version // that the admission rests on
		observe  func(*testing.T, *archive, *process, observers)
		want     []string
	}{
		"the holder of the slice": {"it knows the request", 1, func(_ *testing.T, _ *archive, p *process, o observers) {
			o.holder.show(widgets, "1", 5, 3)
			p.changed("1")
		}, []string{"admitted 3 by ann"}},
		"the holder, by earlier policies": {"object and request count for a while", 2, func(_ *testing.T, _ *archive, p *process, o observers) {
			o.holder.show(widgets, "1", 5, 3)
			p.changed("1")
			<-time.After(observed)
			o.holder.kind(widgets).Confirm(2, 0)
			p.KindChanged(widgets, []quotav1alpha1.ConsumerRef{acme})
		}, []string{"recounted 3", "admitted 3 by ann", "recounted -3"}},
		"another process": {"the holder tells later who it was", 1, func(t *testing.T, a *archive, p *process, o observers) {
			o.other.show(widgets, "1", 5, 3)
			q := a.startRecording(nil)
			q.Inventory = o.other
			q.admit(t, creating(widgets, "2", 1))
			<-time.After(observed)
			o.holder.show(widgets, "1", 5, 3)
			p.changed("1")
		}, []string{"recounted 3", "admitted 1", "admitted 3 by ann", "recounted -3"}},
	}
	for name, tt := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			a := newArchive(t, storagetest.New(), 0)
			a.setReliable()
			o := observers{newInventory(widgets), newInventory(widgets)}
			p := a.startRecording(nil)
			p.holdStock(t, a.memory, o.holder)
			for _, objects := range []*inventoryOf{o.holder, o.other} {
				objects.show(widgets, "first", 2, 4)
			}
			p.changed("first")
			<-time.After(observed)
			before := len(a.sorted())
			r := creating(widgets, "1", 3)
			r.Actor, r.Awaits.Policies = "ann", tt.policies
			if !p.Escrow(acme, []ledger.Reservation{r}, ledgerstore.Spare{}) {
				t.Fatal("not admitted from the slice")
			}

			tt.observe(t, a, p, o)
			<-time.After(time.Minute)

			if diff := cmp.Diff(tt.want, textsOf(a.sorted()[before:])); diff != "" {
				t.Errorf("%s: entries (-want +got):\n%s", tt.reason, diff)
			}
			a.check(false)
		}))
	}
}

// textsOf returns entries as texts.
func textsOf(entries []journal.Entry) (texts []string) {
	for i := range entries {
		text := fmt.Sprintf("%s %d", entries[i].Kind, entries[i].Change)
		if entries[i].Actor != "" {
			text += " by " + entries[i].Actor
		}
		texts = append(texts, text)
	}
	return texts
}
