package ledgerstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// However a reservation's text is escaped, a full ledger is one that etcd stores.
func TestStoredSizeIsBounded(t *testing.T) {
	books := ledger.New()
	if _, err := books.ReplaceGrants([]ledger.Grant{{UID: "g", Name: "g", Allowances: []ledger.Allowance{{ResourceType: "t", Amount: 1000}}}}); err != nil {
		t.Fatal(err)
	}
	// What becomes of annotations that are nothing but quotes.
	outline, err := json.Marshal(map[string]string{"a": strings.Repeat(`"`, 16<<10)})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; ; n++ {
		r := ledger.Reservation{Key: fmt.Sprint("p/", n), Charges: []ledger.Charge{{ResourceType: "t", Amount: 1}}, Claim: string(outline)}
		if isFull(books, []ledger.Reservation{r}) {
			break
		}
		if d := books.Reserve(r); d.Code != ledger.Admitted {
			t.Fatal(d.Code)
		}
	}
	body, err := json.Marshal(specOf(quotav1alpha1.ConsumerRef{Kind: "O", Name: "a"}, books.Books()))
	if err != nil {
		t.Fatal(err)
	}
	const etcdMax = 3 << 19
	if len(body) > etcdMax {
		t.Errorf("%d reservations of %d counted bytes are stored in %d bytes; etcd takes %d", n, books.ReservedBytes(), len(body), etcdMax)
	}
}
