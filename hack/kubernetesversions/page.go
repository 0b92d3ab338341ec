package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// result is the outcome of the suite with one version of Kubernetes.
type result struct {
	version string
	// proofs and outcomes have, by test, the proven statement, and the outcome: passed, failed or skipped.
	proofs, outcomes map[string]string
	// output is everything printed by the tests.
	output []string
}

// proves is the attribute of a test with its proven statement.
const proves = "proves"

func (r *result) note(e event) {
	switch e.Action {
	case "attr":
		if e.Key == proves {
			r.proofs[e.Test] = e.Value
		}
	case "pass", "fail", "skip":
		r.outcomes[e.Test] = e.Action
	case "output":
		r.output = append(r.output, e.Output)
	}
}

const intro = `# Tested versions of Kubernetes

The chart takes Kubernetes 1.32 and later. This table says what was tested on each minor version, with its kube-apiserver and
kube-controller-manager. There was no kubelet: a test says for it that Pods run.

`

const outro = `
"Not in this version" means that the API server lacks what the test needs.

` + "`make kubernetes-versions`" + ` runs the tests and writes this page. Each minor is built from the modules in
` + "`test/campaign/kubernetes/minors`" + `.
`

// page returns the page with the table of the results.
func page(results []*result) []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	b.WriteString("| proven |")
	proofs := map[string]string{}
	for _, r := range results {
		fmt.Fprintf(&b, " %s |", r.version)
		maps.Copy(proofs, r.proofs)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(results)) + "\n")
	tests := slices.SortedFunc(maps.Keys(proofs), func(a, c string) int { return strings.Compare(proofs[a], proofs[c]) })
	for _, test := range tests {
		fmt.Fprintf(&b, "| %s |", proofs[test])
		for _, r := range results {
			fmt.Fprintf(&b, " %s |", word(r.outcomes[test]))
		}
		b.WriteString("\n")
	}
	b.WriteString(outro)
	return b.Bytes()
}

func word(outcome string) string {
	switch outcome {
	case "pass":
		return "yes"
	case "skip":
		return "not in this version"
	case "":
		return "not tested"
	}
	return "fails"
}
