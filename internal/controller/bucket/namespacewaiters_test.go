package bucket

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

func TestEachGrantIsReportedOnce(t *testing.T) {
	var a namespaceWaiters
	grants := func(uids ...string) (grants []ledger.Grant) {
		for _, uid := range uids {
			grants = append(grants, ledger.Grant{UID: uid})
		}
		return grants
	}
	want := func(reason string, given, want []ledger.Grant) {
		t.Helper()
		if diff := cmp.Diff(want, a.unreported("tenants", acme, given)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
	a.add("tenants", acme)
	want("none was told yet", grants("1", "2"), grants("1", "2"))
	a.add("tenants", acme)
	want("looking again is no reason to tell again", grants("1", "2"), nil)
	want("a new grant is told, whatever went meanwhile", grants("2", "3"), grants("3"))
	a.remove("tenants", acme)
	a.add("tenants", acme)
	want("the namespace was there and is gone again", grants("2", "3"), grants("2", "3"))
}

func TestConsumersThatWait(t *testing.T) {
	var a namespaceWaiters
	other := acme
	other.Name = "other"
	a.add("tenants", acme)
	a.add("elsewhere", other)
	if diff := cmp.Diff([]quotav1alpha1.ConsumerRef{acme}, a.consumers("tenants")); diff != "" {
		t.Errorf("who waits for one namespace (-want +got):\n%s", diff)
	}
	a.remove("tenants", acme)
	a.remove("elsewhere", other)
	if len(a.byNamespace) != 0 {
		t.Errorf("%v is remembered, want nothing: nobody waits", a.byNamespace)
	}
}
