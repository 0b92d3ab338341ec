package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/test/platform"
)

const (
	// cloners write at a time, and each writes so many objects in one transaction, fewer than etcd takes.
	cloners        = 8
	clonedTogether = 100
)

// cloneConsumer makes consumers with the same objects as the first one, by writing its objects into etcd again under
// other names and UIDs. Byte for byte they are Bursar's own objects. All names of consumers are equally long, and so
// are UIDs, so the encoding of the objects makes no difference. Nothing may run that would keep the objects right while
// they appear.
func cloneConsumer(ctx context.Context, etcd *clientv3.Client, consumers int) error {
	original, err := storedOf(ctx, etcd, standing(0))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cloners)
	for n := 1; n < consumers; n++ {
		group.Go(func() error {
			rename := original.renamer(standing(0), standing(n))
			for together := range slices.Chunk(original.objects, clonedTogether) {
				var puts []clientv3.Op
				for _, object := range together {
					puts = append(puts, clientv3.OpPut(rename.Replace(object.key), rename.Replace(object.value)))
				}
				if _, err := etcd.Txn(ctx).Then(puts...).Commit(); err != nil {
					return fmt.Errorf("write the objects of consumer %s: %w", standing(n), err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// belongings are all objects with a reference to one consumer, and the objects' UIDs. Owners come before the objects
// they own: without owners those would be garbage.
type belongings struct {
	objects []stored
	uids    []string
}

func storedOf(ctx context.Context, etcd *clientv3.Client, consumer string) (*belongings, error) {
	decoder := serializer.NewCodecFactory(newScheme()).UniversalDeserializer()
	owners := map[string]int{}
	found := &belongings{}
	var failure error
	err := eachStored(ctx, etcd, func(s stored) {
		if resourceOf(s.key) == "events" || !strings.Contains(s.key+s.value, consumer) {
			return
		}
		object, err := runtime.Decode(decoder, []byte(s.value))
		if err != nil {
			failure = fmt.Errorf("decode %s: %w", s.key, err)
			return
		}
		metadata, err := apimeta.Accessor(object)
		if err != nil {
			failure = fmt.Errorf("decode %s: %w", s.key, err)
			return
		}
		found.objects = append(found.objects, s)
		found.uids = append(found.uids, string(metadata.GetUID()))
		owners[s.key] = len(metadata.GetOwnerReferences())
	})
	slices.SortStableFunc(found.objects, func(a, b stored) int { return cmp.Compare(owners[a.key], owners[b.key]) })
	return found, cmp.Or(err, failure)
}

// renamer makes one consumer's objects another's. The names with a hash of the consumer's come first.
func (b *belongings) renamer(from, to string) *strings.Replacer {
	old, other := platform.Consumer(from), platform.Consumer(to)
	pairs := []string{
		naming.Ledger(old), naming.Ledger(other),
		naming.Bucket(old, resourceType, nil), naming.Bucket(other, resourceType, nil),
		from, to,
	}
	for _, uid := range b.uids {
		pairs = append(pairs, uid, string(uuid.NewUUID()))
	}
	return strings.NewReplacer(pairs...)
}
