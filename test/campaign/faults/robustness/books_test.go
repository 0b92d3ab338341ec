package robustness

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// stored is everything that has to fit together.
type stored struct {
	objects corev1.ConfigMapList
	claims  quotav1alpha1.ResourceClaimList
	ledgers quotav1alpha1.ConsumerLedgerList
	buckets quotav1alpha1.AllowanceBucketList
}

func read(t *testing.T, api client.Client) (*stored, error) {
	s := &stored{}
	return s, errors.Join(api.List(t.Context(), &s.objects, client.InNamespace(space)), api.List(t.Context(), &s.claims),
		api.List(t.Context(), &s.ledgers), api.List(t.Context(), &s.buckets))
}

// checkAcknowledged makes sure that everything that was acknowledged is there, and no more
// objects than there may be.
func checkAcknowledged(t *testing.T, api client.Client, acknowledged map[types.UID]string) {
	t.Helper()
	s, err := read(t, api)
	if err != nil {
		t.Fatal(err)
	}
	there := map[types.UID]bool{}
	for _, object := range s.objects.Items {
		there[object.UID] = true
	}
	for _, claim := range s.claims.Items {
		there[claim.UID] = isGranted(&claim)
	}
	for uid, name := range acknowledged {
		if !there[uid] {
			t.Errorf("%s was acknowledged and is gone", name)
		}
	}
	if len(s.objects.Items) > objectsMax {
		t.Errorf("%d objects exist, more than the limit of %d", len(s.objects.Items), objectsMax)
	}
}

func isGranted(claim *quotav1alpha1.ResourceClaim) bool {
	return apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted)
}

// checkBooks waits until the books are quiet and compares objects, claims, ledgers and buckets.
func checkBooks(t *testing.T, api client.Client) {
	t.Helper()
	eventually(t, func() error {
		s, err := read(t, api)
		if err != nil {
			return err
		}
		used, err := s.usage()
		if err != nil {
			return err
		}
		return errors.Join(s.checkLedgers(used), s.checkBuckets(used))
	})
}

// usage adds up the granted claims of each consumer, and checks that every object has exactly one
// claim of each policy and every claim of a policy an object.
func (s *stored) usage() (map[string]int64, error) {
	missing := map[string]bool{}
	for _, object := range s.objects.Items {
		for consumer := range limits {
			missing[consumer+" "+string(object.UID)] = true
		}
	}
	used := map[string]int64{}
	for i := range s.claims.Items {
		claim := &s.claims.Items[i]
		consumer := claim.Spec.ConsumerRef.Name
		if uid := claim.Annotations[quotav1alpha1.AnnotationResourceUID]; uid != "" {
			if !missing[consumer+" "+uid] {
				return nil, fmt.Errorf("claim %s is the second of its object, or its object does not exist", claim.Name)
			}
			delete(missing, consumer+" "+uid)
			if !isGranted(claim) {
				return nil, fmt.Errorf("claim %s is not granted", claim.Name)
			}
		}
		if isGranted(claim) {
			used[consumer]++
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%d claims are missing for %d objects", len(missing), len(s.objects.Items))
	}
	for consumer, limit := range limits {
		if used[consumer] > limit {
			return nil, fmt.Errorf("%d claims of %s are granted, more than the limit of %d", used[consumer], consumer, limit)
		}
	}
	return used, nil
}

func (s *stored) checkLedgers(used map[string]int64) error {
	for _, ledger := range s.ledgers.Items {
		consumer := ledger.Spec.ConsumerRef.Name
		if len(ledger.Spec.Reservations)+len(ledger.Spec.Released) > 0 {
			return fmt.Errorf("%d reservations and %d releases of %s are in flight", len(ledger.Spec.Reservations), len(ledger.Spec.Released), consumer)
		}
		var amount, claims int64
		for _, row := range ledger.Spec.Used {
			amount, claims = amount+row.Amount, claims+row.Claims
		}
		if amount != used[consumer] || claims != used[consumer] {
			return fmt.Errorf("the ledger of %s says %d used by %d claims, and %d are granted", consumer, amount, claims, used[consumer])
		}
	}
	return nil
}

func (s *stored) checkBuckets(used map[string]int64) error {
	for _, bucket := range s.buckets.Items {
		consumer := bucket.Spec.ConsumerRef.Name
		if bucket.Status.Allocated != used[consumer] || bucket.Status.Limit != limits[consumer] {
			return fmt.Errorf("the bucket of %s says %d of %d are allocated; %d of %d are", consumer,
				bucket.Status.Allocated, bucket.Status.Limit, used[consumer], limits[consumer])
		}
	}
	return nil
}
