package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// measureReviews measures the largest QuotaReview: new objects of one consumer.
func (b *bench) measureReviews(ctx context.Context) error {
	const objects, rounds = 1000, 20
	review := &quotav1alpha1.QuotaReview{ObjectMeta: metav1.ObjectMeta{GenerateName: "review-", Namespace: plenty}}
	for n := range objects {
		object := configMap(fmt.Sprintf("reviewed-%d", n))
		object.APIVersion, object.Kind, object.Namespace = "v1", "ConfigMap", plenty
		content, err := json.Marshal(object)
		if err != nil {
			return err
		}
		review.Spec.Objects = append(review.Spec.Objects, quotav1alpha1.ReviewedObject{Object: runtime.RawExtension{Raw: content}})
	}
	before := cpuOf(b.system)
	var times []time.Duration
	for range rounds {
		asked := review.DeepCopy()
		began := time.Now()
		if err := b.client.Create(ctx, asked, client.DryRunAll); err != nil {
			return err
		}
		times = append(times, time.Since(began))
		if asked.Status == nil || asked.Status.Result != quotav1alpha1.ReviewResultFits {
			return errors.New("the objects of a QuotaReview do not fit")
		}
	}
	slices.Sort(times)
	fmt.Printf("\na QuotaReview of %d objects: p50 %s  slowest %s  server CPU %s each\n",
		objects, round(times[rounds/2]), round(times[rounds-1]), round((cpuOf(b.system)-before)/rounds))
	return nil
}
