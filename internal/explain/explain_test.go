package explain

import (
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

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
		"symbol":    {"symbols have no plural", 3 << 30, "GiB", 1 << 30, "3 GiB"},
		"fraction":  {"fractions are written exactly", 1500, "core", 1000, "1.5 cores"},
		"inexact":   {"what does not end is marked", 1, "third", 3, "~0.333333 thirds"},
		"huge":      {"the largest amount is no problem", ledger.AmountMax, "byte", 1, "9223372036854775807 bytes"},
		"tiny part": {"far below one", 1, "TB", 1_000_000_000_000, "~0 TB"},
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

func TestExceededNamesEveryShortage(t *testing.T) {
	got := Exceeded(catalog.New(), quotav1alpha1.ConsumerRef{Kind: "Project", Name: "web", Namespace: "acme"}, []ledger.Shortage{
		{ResourceType: "cpu", Requested: 2, Used: 7, Limit: 8, Matching: 8},
		{ResourceType: "gpu", Requested: 1, Used: 0, Limit: 3},
		{ResourceType: "memory", Requested: 1, Used: 0, Limit: 0},
	})
	want := "exceeded quota: cpu quota of Project web in namespace acme, requested: 2 units, used: 7, limited: 8; " +
		"gpu quota of Project web in namespace acme, requested: 1 unit, used: 0, limited: 3 (without dimensions, available: 0); " +
		"memory quota of Project web in namespace acme, requested: 1 unit, used: 0, limited: 0. " +
		"Delete what Project web in namespace acme no longer needs, or ask an administrator to grant it more."
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A claim that waits tells what the document on the compute service asks for, and what to do: what the registration
// says, else the platform, else what can always be done.
func TestWaits(t *testing.T) {
	declared := func(platform string, advice string) *catalog.Catalog {
		c := catalog.New()
		c.ExceededAdvice = platform
		for name, annotations := range map[string]map[string]string{"vcpus": {quotav1alpha1.AnnotationExceededAdvice: advice}, "memory": nil} {
			r := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: quotav1alpha1.ResourceRegistrationSpec{
				ResourceType: "compute.example.com/" + name, DisplayUnit: map[string]string{"vcpus": "vCPUs", "memory": "GiB"}[name],
				UnitConversionFactor: map[string]int64{"vcpus": 1000, "memory": 1024}[name],
			}}
			apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
			c.SetRegistration(r)
		}
		return c
	}
	dimensions, err := ledger.NewDimensions(map[string]string{"region": "eu"})
	if err != nil {
		t.Fatal(err)
	}
	vcpus := ledger.Shortage{ResourceType: "compute.example.com/vcpus", Requested: 4000, Used: 16000, Limit: 16000, Matching: 16000}
	memory := ledger.Shortage{ResourceType: "compute.example.com/memory", Requested: 2048, Available: 1536, Used: 512, Limit: 4096, Matching: 2048, Dimensions: dimensions}
	const full = "Quota for compute.example.com/vcpus exceeded: requested 4 vCPUs, 0 available (16/16 vCPUs used)"
	tests := map[string]struct {
		platform, registration string
		shortages              []ledger.Shortage
		want                   string
	}{
		"nobody says": {"", "", []ledger.Shortage{vcpus}, full + ". Delete what Project web no longer needs, or ask an administrator to grant it more."},
		"platform":    {"Upgrade the plan of {{name}}.", "", []ledger.Shortage{vcpus}, full + ". Upgrade the plan of web."},
		"registration": {"Upgrade.", "See https://example.com/{{name}}.", []ledger.Shortage{vcpus}, full +
			". See https://example.com/web."},
		"both": {"Upgrade.", "Call us.", []ledger.Shortage{vcpus, memory}, full +
			"; Quota for compute.example.com/memory exceeded: requested 2 GiB, 1.5 available (0.5/4 GiB used, 2 of 4 for region=eu). Call us. Upgrade."},
		"once": {"Upgrade.", "", []ledger.Shortage{vcpus, vcpus}, full + "; " + full + ". Upgrade."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Waits(declared(tt.platform, tt.registration), quotav1alpha1.ConsumerRef{Kind: "Project", Name: "web"}, tt.shortages); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
