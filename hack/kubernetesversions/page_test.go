package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPage(t *testing.T) {
	older, newer := &result{version: "1.32.9", proofs: map[string]string{}, outcomes: map[string]string{}}, &result{version: "1.33.13", proofs: map[string]string{}, outcomes: map[string]string{}}
	for r, outcome := range map[*result]string{older: "skip", newer: "pass"} {
		r.note(event{Action: "attr", Test: "TestKubernetes/group/Resize", Key: proves, Value: "Pods are resized"})
		r.note(event{Action: outcome, Test: "TestKubernetes/group/Resize"})
		r.note(event{Action: "pass", Test: "TestKubernetes"})
	}
	newer.note(event{Action: "attr", Test: "TestUninstall", Key: proves, Value: "Bursar is removed"})
	newer.note(event{Action: "fail", Test: "TestUninstall"})
	want := intro + `| proven | 1.32.9 | 1.33.13 |
| --- | --- | --- |
| Bursar is removed | not tested | fails |
| Pods are resized | not in this version | yes |
` + outro
	got := page([]column{older.column(), newer.column()})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the page is (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, page(columnsOf(got))); diff != "" {
		t.Errorf("the page of its own columns is (-want +got):\n%s", diff)
	}
	removed := column{"1.33.13", map[string]string{"Bursar is removed": "yes"}}
	if got, want := page(update(columnsOf(got), removed)), strings.Replace(want, "fails", "yes", 1); got != want {
		t.Errorf("after another test the page is (-want +got):\n%s", cmp.Diff(want, got))
	}
	removed.version = "1.33.14"
	want = strings.NewReplacer("fails", "yes", "1.33.13", "1.33.14", "version | yes", "version | not tested").Replace(want)
	if diff := cmp.Diff(want, page(update(columnsOf(got), removed))); diff != "" {
		t.Errorf("with another patch the page is (-want +got):\n%s", diff)
	}
}

// TestVersions finds a version for every minor. It fails if a module file requires another minor than its name says.
func TestVersions(t *testing.T) {
	t.Chdir("../..")
	found, err := versions()
	if err != nil {
		t.Fatal(err)
	}
	for _, minor := range []string{"1.32", "1.33", "1.34", "1.35", "1.36", "1.37"} {
		if found[minor] == "" {
			t.Errorf("Kubernetes %s is not among %v", minor, found)
		}
	}
}
