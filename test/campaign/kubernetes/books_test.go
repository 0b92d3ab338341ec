package kubernetes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// wantBooks waits until every Pod has one granted claim, and the books and buckets say the same; and checks
// the history of the books, and that every Pod is there whose create was answered.
func (f *faults) wantBooks() {
	f.Helper()
	defer func() {
		f.Logf("%d revisions of ledgers were checked; %d creates for the hot consumer were admitted, %d for the others, %d refused, %d calls failed; %d Pods are left",
			f.recorder.Finish(), len(f.load.admitted[true]), len(f.load.admitted[false]), f.load.refused, len(f.load.failures), len(f.load.held))
	}()
	f.eventually(func() error { // and at one time
		for _, n := range append([]*team{f.team}, f.others...) {
			if err := n.booksAgree(); err != nil {
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

// booksAgree tells what the books of a team and its claims and Pods do not agree on.
func (n *team) booksAgree() error {
	var list corev1.PodList
	var claims quotav1alpha1.ResourceClaimList
	var buckets quotav1alpha1.AllowanceBucketList
	var ledgers quotav1alpha1.ConsumerLedgerList
	for list, options := range map[client.ObjectList]client.ListOption{
		&list: client.InNamespace(n.name), &claims: client.InNamespace(n.name),
		&buckets: client.MatchingFields{"spec.consumerRef.name": n.name}, &ledgers: &client.ListOptions{},
	} {
		if err := n.List(n.Context(), list, options); err != nil {
			return err
		}
	}
	charged := map[string]int{}
	for i := range list.Items {
		charged[string(list.Items[i].UID)] = 0
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		uid := claim.Annotations[quotav1alpha1.AnnotationResourceUID]
		if _, exists := charged[uid]; !exists {
			return fmt.Errorf("claim %s/%s is of a Pod that does not exist", n.name, claim.Name)
		}
		charged[uid]++
		if !meta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted) {
			return fmt.Errorf("claim %s/%s is not granted: %+v", n.name, claim.Name, claim.Status)
		}
	}
	for uid, count := range charged {
		if count != 1 {
			return fmt.Errorf("Pod %s in %s has %d claims", uid, n.name, count)
		}
	}
	want := map[string]int64{pods: int64(len(charged)), memory: int64(len(charged)) * mebibyte}
	for i := range ledgers.Items {
		spec := &ledgers.Items[i].Spec
		if spec.ConsumerRef.Name != n.name {
			continue
		}
		if len(spec.Reservations) > 0 || len(spec.Released) > 0 {
			return fmt.Errorf("in the ledger of %s are in flight: %+v, %v", n.name, spec.Reservations, spec.Released)
		}
		used := map[string]int64{pods: 0, memory: 0}
		for _, u := range spec.Used {
			used[u.ResourceType] = u.Amount
		}
		for resourceType, amount := range want {
			if used[resourceType] != amount {
				return fmt.Errorf("the ledger of %s says that %d of %s are used, want %d", n.name, used[resourceType], resourceType, amount)
			}
		}
	}
	for i := range buckets.Items {
		bucket := &buckets.Items[i]
		if want := want[bucket.Spec.ResourceType]; bucket.Status.Allocated != want || int(bucket.Status.ClaimCount) != len(charged) {
			return fmt.Errorf("bucket %s says that %d are allocated to %d claims, want %d to %d", bucket.Name, bucket.Status.Allocated, bucket.Status.ClaimCount, want, len(charged))
		}
	}
	if len(buckets.Items) != len(want) {
		return fmt.Errorf("%s has %d buckets, want %d", n.name, len(buckets.Items), len(want))
	}
	return nil
}
