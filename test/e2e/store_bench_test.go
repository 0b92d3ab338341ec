package e2e

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/inventory/watcher"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/platform"
)

// BenchmarkStoreOnAPIServer has 64 callers reserve for objects of one consumer that then exist, with the ledger in a
// real API server and etcd.
func BenchmarkStoreOnAPIServer(b *testing.B) {
	const callers = 64
	config := rest.CopyConfig(started.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: apiserver.OperatorUser, Groups: []string{"system:masters"}}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	storage, err := ledgerstore.NewAPIStorage(config, httpClient, nil)
	if err != nil {
		b.Fatal(err)
	}
	store := ledgerstore.New(b.Context(), storage)
	seen := inventory.New()
	things := seen.Add("things", types.NamespacedName.String)
	things.Replace(ledger.Basis{Objects: 1}, func(func(inventory.Object) bool) {})
	store.Inventory = &watcher.Watcher{Inventory: seen}
	consumer := platform.Consumer(fmt.Sprintf("bench-%d", time.Now().UnixNano()))
	err = store.SetGrants(b.Context(), consumer, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
		return []ledger.Grant{{UID: "g", Name: "g", Allowances: []ledger.Allowance{{ResourceType: "t", Amount: 1 << 40}}}}, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	var serial atomic.Int64
	var showing sync.Mutex // versions come in order
	version := ledger.Version(1)
	b.SetParallelism(max(callers/runtime.GOMAXPROCS(0), 1))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			uid := fmt.Sprint(serial.Add(1))
			key := ledgerstore.ObjectKey("policy", uid)
			charges := []ledger.Charge{{ResourceType: "t", Amount: 1}}
			decision, err := storagetest.Reserve(b.Context(), store, consumer, ledger.Reservation{
				Key: key, ReservedAt: time.Now().Unix(), Charges: charges, Awaits: &ledger.Awaited{Kind: "things", ID: uid},
				Claim: `{"claim":"plenty/configmap-c2-0","apiVersion":"v1","kind":"ConfigMap","object":"plenty/c2-0"}`,
			})
			if err != nil || decision.Code != ledger.Admitted {
				b.Errorf("%s: %v", decision.Code, err)
				return
			}
			showing.Lock()
			version++
			things.Set(inventory.Object{
				UID: types.UID(uid), Version: version, Demands: []inventory.Demand{{Policy: "policy", Consumer: consumer, Charges: charges}},
			})
			showing.Unlock()
			store.ObjectChanged(types.UID(uid), []quotav1alpha1.ConsumerRef{consumer})
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}
