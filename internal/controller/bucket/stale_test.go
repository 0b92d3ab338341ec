package bucket

import (
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

func TestIsStale(t *testing.T) {
	now := subject{consumer: acme, resourceType: "projects", namespace: "organization-acme"}
	before := now
	before.namespace = "bursar-system"
	foreign := before.newBucket(at("DFW"))
	foreign.Name = "mine"
	tests := map[string]struct {
		reason    string
		got, want bool
	}{
		"bucket":         {"its namespace is another now", isStale(before.newBucket(at("DFW")), now.newBucket(at("DFW"))), true},
		"effective":      {"so is that of the effective grant", isStale(before.newEffectiveGrant(), now.newEffectiveGrant()), true},
		"in place":       {"it is where it belongs", isStale(now.newBucket(ledger.Dimensions{}), now.newBucket(ledger.Dimensions{})), false},
		"not of Bursar":  {"Bursar makes none of that name", isStale(foreign, now.newBucket(at("DFW"))), false},
		"not what it is": {"a name is of one dimension set alone", isStale(before.newBucket(at("LHR")), now.newBucket(at("DFW"))), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %t, want %t: %s", tt.got, tt.want, tt.reason)
			}
		})
	}
}
