package requests

import (
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The command asks for the same as the form.
func TestAskCommand(t *testing.T) {
	f := askForm{Namespace: "acme", Consumer: "Organization/acme", Reason: "a launch", Dimensions: "region=eu, tier=gold", Until: "2027-03-31"}
	const want = "bursar request TYPE=AMOUNT --for Organization/acme -n acme --reason 'a launch' --dimension region=eu --dimension tier=gold --until 2027-03-31"
	if got := f.command(nil); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Base units without a word would read as display units.
func TestAsks(t *testing.T) {
	q := &quotav1alpha1.QuotaRequest{Spec: quotav1alpha1.QuotaRequestSpec{Requests: []quotav1alpha1.RequestedQuota{{ResourceType: "shop/cpu", Increase: new(int64(8000))}}}}
	if got := Asks(q); got != "being evaluated" {
		t.Errorf("before the evaluation: %q", got)
	}
	q.Status.Asks = "+8 cores of shop/cpu"
	if got := Asks(q); got != q.Status.Asks {
		t.Errorf("after the evaluation: %q", got)
	}
}
