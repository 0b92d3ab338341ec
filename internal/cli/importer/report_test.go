package importer

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestReport checks that the report has the limits in effect, the rights of Bursar, and commands to copy.
func TestReport(t *testing.T) {
	plan := planned(t, newEarlier(), false,
		`{metadata: {name: a, namespace: shop}, spec: {hard: {requests.cpu: 7}}}`,
		`{metadata: {name: b, namespace: shop}, spec: {hard: {requests.cpu: 1500m}}}`,
		`{metadata: {name: c, namespace: shop}, spec: {hard: {requests.cpu: 3}}}`)
	for _, taken := range plan.TakenOver {
		if taken.Limit != 1500 || taken.Hard != "1500m" {
			t.Errorf("%s has the limit %s (%d), and the lowest is in effect", taken.From, taken.Hard, taken.Limit)
		}
	}
	plan.followed = append(plan.followed, corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("pods"))
	report := &Report{From: "resourcequota", Plan: plan, importCommand: "bursar import --context=x --prune", changeCommand: "bursar import --context=x"}
	for isDryRun, parts := range map[bool][]string{
		true:  {"would let Bursar read", "bursar-imported-resourcequota): pods, secrets.", "To import: bursar import --context=x --prune\n"},
		false: {"lets Bursar read", "bursar import --context=x --mode Enforce\n", "bursar import --context=x --mode Audit, or --remove"},
	} {
		report.IsDryRun = isDryRun
		var text strings.Builder
		if err := report.Print(&text, ""); err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(text.String(), part) {
				t.Errorf("the report does not say %q:\n%s", part, &text)
			}
		}
	}
	if plan.Consumers = nil; slices.Contains(report.readable(), "secrets") {
		t.Error("without a role, Bursar may read secrets")
	}
}
