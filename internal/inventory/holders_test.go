package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// textOf has all that matters of a holder.
func textOf(h *Holder) string {
	return fmt.Sprintf("%d %s %s %s %d %v", h.Rank, h.NamespacedName, h.Consumer.Name, h.Policies, h.Created.Unix(), h.Charges)
}

// checkHolders reads the visible holders of a selection page by page, and compares them with the plain list.
func (w *world) checkHolders() {
	var s Selection
	s.ResourceType = rapid.SampledFrom([]string{"", "maps", "other"}).Draw(w.T, "of type")
	s.Namespace = rapid.SampledFrom([]string{"", "team-0", "team-1"}).Draw(w.T, "of namespace")
	if consumer := rapid.SampledFrom([]*quotav1alpha1.ConsumerRef{nil, &acme, &blue}).Draw(w.T, "of consumer"); consumer != nil {
		s.Consumer = consumer
	}
	hidden := rapid.SampledFrom([]string{"", "team-0", "team-1"}).Draw(w.T, "hidden")
	isVisible := func(p Place) bool { return p.Namespace != hidden }
	want, hiddenCount, hiddenAmount := w.holders(&s, isVisible)

	var got []string
	var after *Position
	for {
		page := w.all.Holders(s, after, rapid.IntRange(1, 4).Draw(w.T, "limit"), isVisible)
		if amount := page.HiddenAmounts["maps"].Amount(); page.Hidden != hiddenCount || amount != hiddenAmount {
			w.Fatalf("%d holders of %d are hidden, want %d of %d", page.Hidden, amount, hiddenCount, hiddenAmount)
		}
		for i := range page.Holders {
			got = append(got, textOf(&page.Holders[i]))
			after = &page.Holders[i].Position
		}
		if len(got)+page.Remaining != len(want) {
			w.Fatalf("%d holders remain after %d, want %d of all", page.Remaining, len(got), len(want))
		}
		if page.Remaining == 0 {
			break
		}
	}
	if !slices.Equal(got, want) {
		w.Fatalf("the holders in %+v without %q are\n%q, want\n%q", s, hidden, got, want)
	}
}

// holders selects from the plain list.
func (w *world) holders(s *Selection, isVisible func(Place) bool) (visible []string, hidden int, hiddenAmount ledger.Amount) {
	var all []Holder
	for _, o := range w.objects {
		for _, d := range o.Demands {
			if s.Consumer != nil && d.Consumer != *s.Consumer || s.Namespace != "" && o.Namespace != s.Namespace || s.ResourceType == "other" {
				continue
			}
			h := Holder{Position: Position{NamespacedName: o.NamespacedName, Consumer: d.Consumer}, Created: o.Created, Policies: []string{""}}
			for _, c := range d.Charges {
				if c.Amount > 0 {
					h.Charges = append(h.Charges, c)
					h.Rank += int64(c.Amount)
				}
			}
			slices.SortFunc(h.Charges, func(a, b ledger.Charge) int { return a.Dimensions.Compare(b.Dimensions) })
			switch {
			case h.Rank == 0:
				continue
			case !isVisible(h.Place()):
				hidden++
				hiddenAmount += ledger.Amount(h.Rank)
				continue
			case s.ResourceType == "":
				h.Rank = o.Created.Unix()
			}
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.String(), b.String()), cmp.Compare(a.Consumer.Name, b.Consumer.Name))
	})
	for i := range all {
		visible = append(visible, textOf(&all[i]))
	}
	return visible, hidden, hiddenAmount
}

// listedIn returns the inventory of a kind with a list of no objects, in an inventory.
func listedIn(all *Inventory, name string) *Kind {
	kind := all.Add(name, types.NamespacedName.String)
	kind.Replace(ledger.Basis{}, maps.Values(map[int]Object{}))
	return kind
}

// While others come, go and change, every object that stays as it is appears on one page.
func TestPagesAreStable(t *testing.T) {
	const staying, moving = 300, 200
	for _, resourceType := range []string{"maps", ""} {
		t.Run("type "+resourceType, func(t *testing.T) {
			all := New()
			kind := listedIn(all, "v1/ConfigMap")
			random, version := rand.New(rand.NewPCG(1, 2)), ledger.Version(0)
			set := func(n int) {
				version++
				kind.Set(mapOf(n, version, demandOf(acme, ledger.Amount(1+random.IntN(50)), ledger.Dimensions{})))
			}
			for n := range staying + moving {
				set(n)
			}
			disturb := func() {
				for range 20 {
					n := staying + random.IntN(2*moving) // some of them are new
					if random.IntN(2) == 0 {
						set(n)
						continue
					}
					version++
					kind.Delete(Object{UID: uidOf(n), Version: version})
				}
			}

			seen := map[string]int{}
			var after *Position
			for pages := 0; ; pages++ {
				page := all.Holders(Selection{Consumer: &acme, ResourceType: resourceType}, after, 7, nil)
				for i := range page.Holders {
					seen[page.Holders[i].Name]++
					after = &page.Holders[i].Position
				}
				if page.Remaining == 0 {
					break
				}
				if pages > staying+10*moving {
					t.Fatal("the pages have no end")
				}
				disturb()
			}
			for n := range staying {
				if name := fmt.Sprint("map-", n); seen[name] != 1 {
					t.Errorf("%s is on %d pages", name, seen[name])
				}
			}
		})
	}
}

// An object may demand something of several consumers by several policies, and several kinds are one list.
func TestHoldersOfSeveralKinds(t *testing.T) {
	all := New()
	maps, projects := listedIn(all, "v1/ConfigMap"), listedIn(all, "shop.example.com/v1/Project")
	by := func(policy string, d Demand) Demand {
		d.Policy = policy
		return d
	}
	maps.Set(mapOf(1, 1, by("a", demandOf(acme, 2, ledger.Dimensions{})), by("b", demandOf(acme, 3, ledger.Dimensions{})), by("c", demandOf(blue, 1, ledger.Dimensions{}))))
	projects.Set(Object{NamespacedName: types.NamespacedName{Name: "web"}, UID: uidOf(9), Version: 1, Demands: []Demand{by("d", demandOf(acme, 4, ledger.Dimensions{}))}})

	page := all.Holders(Selection{Consumer: &acme, ResourceType: "maps"}, nil, 10, nil)
	if len(page.Holders) != 2 || page.Holders[0].Name != "map-1" || page.Holders[0].Rank != 5 || len(page.Holders[0].Charges) != 1 ||
		!slices.Equal(page.Holders[0].Policies, []string{"a", "b"}) || page.Holders[1].Name != "web" {
		t.Errorf("the holders are %+v, want the map with the sum of its policies, and the project", page.Holders)
	}
	if places := all.Places(Selection{}); !slices.Equal(places, []Place{{Consumer: acme}, {Namespace: "team-1"}}) {
		t.Errorf("the places are %+v", places)
	}
	one := &ObjectName{schema.GroupKind{Kind: "ConfigMap"}, types.NamespacedName{Namespace: "team-1", Name: "map-1"}}
	if page := all.Holders(Selection{Object: one}, nil, 10, nil); len(page.Holders) != 2 {
		t.Errorf("the object holds %+v, want one share of each consumer", page.Holders)
	}
	one.GroupKind.Group = "other.example.com"
	if page := all.Holders(Selection{Object: one}, nil, 10, nil); len(page.Holders) != 0 {
		t.Errorf("an object of another kind holds %+v", page.Holders)
	}
	if page := all.Holders(Selection{}, nil, -1, nil); len(page.Holders) != 0 || page.Remaining != 3 {
		t.Errorf("without room there are %d holders, and %d remain", len(page.Holders), page.Remaining)
	}
}

// BenchmarkHolders reads the first page of the holders of a consumer with 10,000 of 150,000 objects: their places, and
// the largest of them.
func BenchmarkHolders(b *testing.B) {
	all := New()
	kind := listedIn(all, "v1/Pod")
	for n := range 150_000 {
		consumer := blue
		if n < 10_000 {
			consumer = acme
		}
		kind.Set(mapOf(n, ledger.Version(n+1), demandOf(consumer, ledger.Amount(1+n%100), ledger.Dimensions{})))
	}
	of := Selection{Consumer: &acme, ResourceType: "maps"}
	for b.Loop() {
		if places := all.Places(of); len(places) != 2 {
			b.Fatalf("the places are %v", places)
		}
		if page := all.Holders(of, nil, 500, func(p Place) bool { return p.Namespace == "team-1" }); len(page.Holders) != 500 || page.Hidden != 5000 {
			b.Fatalf("%d holders, and %d hidden", len(page.Holders), page.Hidden)
		}
	}
}
