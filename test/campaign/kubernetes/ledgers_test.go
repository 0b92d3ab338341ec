package kubernetes

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/test/kit"
)

// wantLedgers waits until every Pod has one granted claim, and the ledgers and buckets agree. It also checks the
// history of the ledgers, and the existence of every Pod with an answered create.
func (f *faults) wantLedgers() {
	f.Helper()
	defer func() {
		f.Logf("%d revisions of ledgers were checked; %d creates for the hot consumer were admitted, %d for the others, %d refused, %d calls failed; %d Pods are left",
			f.recorder.Finish(), len(f.load.admitted[true]), len(f.load.admitted[false]), f.load.refused, len(f.load.failures), len(f.load.held))
	}()
	f.eventually(func() error { // and at one time
		for _, n := range append([]*team{f.team}, f.others...) {
			if err := n.ledgersAgree(); err != nil {
				return err
			}
		}
		return nil
	})
	existing := map[string]bool{}
	var list corev1.PodList
	if err := f.List(f.Context(), &list); err != nil {
		f.Fatal(err)
	}
	for i := range list.Items {
		existing[string(list.Items[i].UID)] = true
	}
	for uid, name := range f.load.held {
		if !existing[string(uid)] {
			f.Errorf("the create of Pod %s was answered, and it does not exist", name)
		}
	}
}

// ledgersAgree returns the differences between the ledger of a team and its claims and Pods.
func (n *team) ledgersAgree() error {
	var list corev1.PodList
	if err := n.List(n.Context(), &list, client.InNamespace(n.name)); err != nil {
		return err
	}
	a := kit.Agreement{Limits: kit.Charges{n.name: n.granted}, Objects: map[types.UID]kit.Charges{}}
	for i := range list.Items {
		a.Objects[list.Items[i].UID] = kit.Charges{n.name: {pods: 1, memory: mebibyte}}
	}
	return a.Check(n.Context(), n)
}
