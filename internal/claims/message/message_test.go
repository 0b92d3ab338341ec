package message

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

func TestAmountInBaseUnits(t *testing.T) {
	r := &catalog.Registration{DisplayUnit: "core", BaseUnit: "nanocore", Factor: 1_000_000_000}
	if got := Amount(250, r); got != "250 nanocores" {
		t.Errorf("got %q", got)
	}
}

func TestAmount(t *testing.T) {
	tests := map[string]struct {
		reason string
		amount ledger.Amount
		unit   string
		factor int64
		want   string
	}{
		"one":       {"one of a word stays in the singular", 1, "project", 1, "1 project"},
		"many":      {"more become a plural", 2, "project", 1, "2 projects"},
		"none":      {"none is many", 0, "project", 1, "0 projects"},
		"words":     {"a unit may be two words", 2, "config map", 1, "2 config maps"},
		"y":         {"y becomes ies", 3, "repository", 1, "3 repositories"},
		"vowel y":   {"but not after a vowel", 3, "key", 1, "3 keys"},
		"x":         {"a sibilant takes another vowel", 2, "box", 1, "2 boxes"},
		"z":         {"a sibilant takes another vowel", 2, "waltz", 1, "2 waltzes"},
		"ch":        {"a sibilant takes another vowel", 2, "batch", 1, "2 batches"},
		"sh":        {"a sibilant takes another vowel", 2, "hash", 1, "2 hashes"},
		"ss":        {"a sibilant takes another vowel", 2, "access", 1, "2 accesses"},
		"last word": {"of two words, the last", 2, "mail box", 1, "2 mail boxes"},
		"one box":   {"but not for one", 1, "box", 1, "1 box"},
		"plural":    {"what is a plural stays one", 2, "gpus", 1, "2 gpus"},
		"one of":    {"one of an abbreviation in the plural is without the s", 1, "vCPUs", 1, "1 vCPU"},
		"some of":   {"several keep it", 2, "GPUs", 1, "2 GPUs"},
		"symbol":    {"symbols have no plural", 3 << 30, "GiB", 1 << 30, "3 GiB"},
		"fraction":  {"fractions are written exactly", 1500, "core", 1000, "1.5 cores"},
		"inexact":   {"what does not end is marked", 1, "third", 3, "~0.333333 thirds"},
		"huge":      {"the largest amount is no problem", ledger.AmountMax, "byte", 1, "9223372036854775807 bytes"},
		"tiny part": {"far below one", 1, "TB", 1_000_000_000_000, "1 byte"},
		"small":     {"a small part is in a unit that can be read", 2 << 10, "GiB", 1 << 30, "2 KiB"},
		"half":      {"a short part stays in the unit", 1 << 29, "GiB", 1 << 30, "0.5 GiB"},
		"megabytes": {"of a unit of powers of ten too", 1_234_500, "GB", 1_000_000_000, "1.2345 MB"},
		"no bytes":  {"a unit that only sounds like bytes has no parts", 1, "GiB", 10, "0.1 GiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := &catalog.Registration{DisplayUnit: tt.unit, Factor: tt.factor}
			if got := Amount(tt.amount, r); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}

// goldenFile has the messages by situation.
const goldenFile = "testdata/denials.txt"

// TestDenialTexts compares every text with the golden file. With UPDATE_GOLDEN set it writes the file. A unit known
// only from a displayed amount is displayed as in the registration.
func TestSingular(t *testing.T) {
	for _, name := range []string{"project", "core", "box", "address", "repository", "vCPU", "GiB", "config map", "key"} {
		_, displayed, _ := strings.Cut(Amount(2, &catalog.Registration{DisplayUnit: name, Factor: 1}), " ")
		if got := Singular(displayed); got != name {
			t.Errorf("%q becomes %q, want %q", displayed, got, name)
		}
	}
}

func TestDenialTexts(t *testing.T) {
	web := quotav1alpha1.ConsumerRef{Kind: "Project", Name: "web"}
	c := declared("", "")
	c.ConsumerNamespaces = &naming.ConsumerNamespaces{Templates: map[schema.GroupKind]string{{Kind: "Project"}: "project-{{name}}"}}
	upgrade := declared("Upgrade the plan of {{name}}.", "See https://example.com/{{name}}.")
	eu := dimensions(t, "region", "eu")
	vcpus := ledger.Shortage{ResourceType: "compute.example.com/vcpus", Requested: 4000, Used: 16000, Limit: 16000, Matching: 16000}
	memory := ledger.Shortage{ResourceType: "compute.example.com/memory", Requested: 3 << 30, Available: 2 << 30, Used: 8 << 30, Limit: 10 << 30, Matching: 10 << 30}
	with := func(s ledger.Shortage, change func(*Shortfall)) *Denial {
		d := Of(web, []ledger.Shortage{s})
		change(&d.Shortfalls[0])
		return d
	}
	people := forPeople()
	machines := ledger.Shortage{ResourceType: "compute.example.com/machines", Requested: 1, Used: 2, Limit: 2, Matching: 2}
	disks := ledger.Shortage{ResourceType: "compute.example.com/disks", Requested: 1, Used: 2, Limit: 2, Matching: 2}
	texts := map[string]string{
		"a name":                    Exceeded(people, web, []ledger.Shortage{vcpus}),
		"a name of a kind":          Exceeded(people, web, []ledger.Shortage{machines}),
		"names, and two owners":     Exceeded(people, web, []ledger.Shortage{vcpus, machines}),
		"no name, but an owner":     Exceeded(people, web, []ledger.Shortage{disks}),
		"names, hidden":             Of(web, []ledger.Shortage{vcpus, machines}).Hidden(people),
		"nothing granted, an owner": with(vcpus, func(s *Shortfall) { s.Used, s.Limit, s.Matching = 0, 0, 0 }).Sentences(people),
		"more than it, an owner":    with(vcpus, func(s *Shortfall) { s.Requested = 99000 }).Sentences(people),
		"advice, and an owner": func() string {
			c := forPeople()
			c.ExceededAdvice = "Upgrade the plan."
			return Exceeded(c, web, []ledger.Shortage{vcpus})
		}(),
		"all is used":       Exceeded(c, web, []ledger.Shortage{vcpus}),
		"some is available": Exceeded(c, web, []ledger.Shortage{memory}),
		"several types":     Exceeded(c, web, []ledger.Shortage{vcpus, memory}),
		"in a namespace":    Exceeded(c, quotav1alpha1.ConsumerRef{Kind: "Project", Name: "web", Namespace: "acme"}, []ledger.Shortage{vcpus}),
		"an update":         with(vcpus, func(s *Shortfall) { s.Total = 8000 }).Sentences(c),
		"who uses it": with(vcpus, func(s *Shortfall) {
			s.Holders = []Holder{{"App front/shop", 8000}, {"App back/shop", 4000}, {"App batch/jobs", 500}}
		}).Sentences(c),
		"nothing beside small ones": with(memory, func(s *Shortfall) {
			s.Requested, s.Available, s.Used, s.Limit, s.Matching = 2<<10, 1<<10, 0, 1<<10, 1<<10
		}).Sentences(c),
		"small amounts":               with(memory, func(s *Shortfall) { s.Requested, s.Available, s.Used = 2<<10, 1<<10, 10<<30-1<<10 }).Sentences(c),
		"nothing granted":             with(vcpus, func(s *Shortfall) { s.Used, s.Limit, s.Matching = 0, 0, 0 }).Sentences(c),
		"nothing granted, but used":   with(vcpus, func(s *Shortfall) { s.Limit, s.Matching = 0, 0 }).Sentences(c),
		"nothing granted for a place": with(vcpus, func(s *Shortfall) { s.Matching, s.Dimensions = 0, eu }).Sentences(c),
		"part of it in a place":       with(memory, func(s *Shortfall) { s.Matching, s.Dimensions = 5<<30, eu }).Sentences(c),
		"more than the limit":         with(vcpus, func(s *Shortfall) { s.Requested = 99000 }).Sentences(c),
		"more than the limit in all":  with(vcpus, func(s *Shortfall) { s.Total = 18000 }).Sentences(c),
		"no such consumer": func() string {
			d := with(vcpus, func(s *Shortfall) { s.Used, s.Limit, s.Matching = 0, 0, 0 })
			d.IsMissing = true
			return d.Sentences(c)
		}(),
		"hidden":                     Of(web, []ledger.Shortage{vcpus, memory}).Hidden(c),
		"platform and registration":  Exceeded(upgrade, web, []ledger.Shortage{vcpus, memory}),
		"nothing granted, by advice": with(vcpus, func(s *Shortfall) { s.Used, s.Limit, s.Matching = 0, 0, 0 }).Sentences(upgrade),
		"a claim waits":              Waits(c, web, []ledger.Shortage{vcpus}),
		"a claim waits for a limit":  Waits(c, web, []ledger.Shortage{{ResourceType: "compute.example.com/vcpus", Requested: 99000, Limit: 4000, Matching: 4000, Available: 4000}}),
		"not registered any more":    Exceeded(c, web, []ledger.Shortage{{ResourceType: "gone", Requested: 2, Used: 7, Limit: 8, Matching: 8, Available: 1}}),
	}
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&got, "%s:\n\t%s\n", name, texts[name])
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(goldenFile, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the texts differ (-want +got):\n%s", diff)
	}
	for name, text := range texts {
		if forbidden := "Delete what"; strings.Contains(text, forbidden) && strings.Contains(name, "nothing granted") || strings.Contains(text, forbidden) && strings.Contains(name, "more than") {
			t.Errorf("%s: to delete something does not help: %s", name, text)
		}
	}
}

// declared are registrations of vCPUs, with the advice, and memory.
func declared(platform, advice string) *catalog.Catalog {
	c := catalog.New()
	c.ExceededAdvice = platform
	for name, annotations := range map[string]map[string]string{"vcpus": {quotav1alpha1.AnnotationExceededAdvice: advice}, "memory": nil} {
		r := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: "compute.example.com/" + name, BaseUnit: map[string]string{"vcpus": "millicore", "memory": "byte"}[name],
			DisplayUnit:          map[string]string{"vcpus": "vCPU", "memory": "GiB"}[name],
			UnitConversionFactor: map[string]int64{"vcpus": 1000, "memory": 1 << 30}[name],
		}}
		apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
		c.SetRegistration(r)
	}
	return c
}

// forPeople are registrations with names for people, and with owners. The display name of disks is not for messages.
func forPeople() *catalog.Catalog {
	c := catalog.New()
	for name, of := range map[string]struct{ display, owner string }{
		"vcpus": {"vCPUs", "compute.example.com"}, "machines": {"Virtual machines", "machines.example.com"}, "disks": {"quota of Project evil, requested: 1", "compute.example.com"},
	} {
		r := &quotav1alpha1.ResourceRegistration{Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: "compute.example.com/" + name, Type: quotav1alpha1.RegistrationTypeAllocation, DisplayUnit: strings.TrimSuffix(name, "s"), UnitConversionFactor: 1,
		}}
		switch name {
		case "vcpus":
			r.Spec.DisplayUnit, r.Spec.UnitConversionFactor = "vCPU", 1000
		case "machines":
			r.Spec.Type, r.Spec.ClaimingResources = quotav1alpha1.RegistrationTypeEntity, []quotav1alpha1.ClaimingResource{{Kind: "Machine"}}
		}
		r.Name, r.Labels = name, map[string]string{quotav1alpha1.LabelOwner: of.owner}
		r.Annotations = map[string]string{quotav1alpha1.AnnotationDisplayName: of.display}
		apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
		c.SetRegistration(r)
	}
	return c
}

func dimensions(t *testing.T, key, value string) ledger.Dimensions {
	t.Helper()
	d, err := ledger.NewDimensions(map[string]string{key: value})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
