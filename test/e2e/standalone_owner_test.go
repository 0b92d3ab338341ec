package e2e

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
)

// TestBucketsGetAnOwnerAtStart leaves a bucket of an abandoned resource type without an owner, and starts the server
// again. A version without effective grants left such buckets.
func TestBucketsGetAnOwnerAtStart(t *testing.T) {
	t.Parallel()
	options := standalone.Options{Quota: config.Quota{SystemNamespace: ledgersNamespace}, DataDir: t.TempDir()}
	shown := func(t *testing.T, api client.Client) (buckets []quotav1alpha1.AllowanceBucket, effective []quotav1alpha1.EffectiveResourceGrant, err error) {
		var b quotav1alpha1.AllowanceBucketList
		var e quotav1alpha1.EffectiveResourceGrantList
		err = errors.Join(api.List(t.Context(), &b), api.List(t.Context(), &e))
		return b.Items, e.Items, err
	}
	t.Run("before", func(t *testing.T) {
		api := start(t, options).Admin
		if err := platform.Install(t.Context(), api); err != nil {
			t.Fatal(err)
		}
		grant := teamGrant()
		create(t, api, teamRegistration(), grant)
		eventually(t, func() error {
			buckets, effective, err := shown(t, api)
			if err == nil && (len(buckets) != 1 || buckets[0].Status.Limit != 1 || len(effective) != 1 || effective[0].Status.TotalLimit != 1) {
				err = fmt.Errorf("there are buckets %+v and effective grants %+v, want one of each with a limit of 1", buckets, effective)
			}
			return err
		})
		if err := api.Delete(t.Context(), grant); err != nil {
			t.Fatal(err)
		}
		var bucket quotav1alpha1.AllowanceBucket
		var view quotav1alpha1.EffectiveResourceGrant
		eventually(t, func() error {
			buckets, effective, err := shown(t, api)
			if err == nil && effective[0].Status.TotalLimit != 0 {
				err = errors.New("the effective grant still has a limit")
			}
			if err == nil {
				bucket, view = buckets[0], effective[0]
			}
			return err
		})
		// Orphan deletion would not do: the garbage collector may not know of the bucket yet.
		disowned := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))
		if err := errors.Join(api.Patch(t.Context(), &bucket, disowned), api.Delete(t.Context(), &view)); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			buckets, effective, err := shown(t, api)
			if err == nil && (len(effective) != 0 || len(buckets) != 1 || len(buckets[0].OwnerReferences) != 0) {
				err = fmt.Errorf("there are buckets %+v and effective grants %+v, want a bucket without owner", buckets, effective)
			}
			return err
		})
	})
	t.Run("after", func(t *testing.T) {
		api := start(t, options).Admin
		eventually(t, func() error {
			buckets, effective, err := shown(t, api)
			if err == nil && (len(effective) != 1 || len(buckets) != 1 || !metav1.IsControlledBy(&buckets[0], &effective[0])) {
				err = fmt.Errorf("there are buckets %+v and effective grants %+v, want the bucket to be owned", buckets, effective)
			}
			return err
		})
	})
}
