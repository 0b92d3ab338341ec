package enforce

import (
	"net/http"
	"testing"
)

// A denial for a full ledger names the ledger, and no quota or policy.
func TestFullLedgerIsNamedInTheDenial(t *testing.T) {
	s := newScene(t, 10)
	s.memory.Fill(organization("globex"))
	answer := s.review("1")
	s.wantDenied(answer, http.StatusForbidden, "the ledger of Organization globex is full: its grants, the sets of dimensions in use and the claims in flight take 512 KiB. "+
		"Delete what it no longer needs, use fewer different dimensions, or ask an administrator to merge its grants")
	s.wantReservations(0, 0)
}
