package claims_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/sdk/claims"
)

// reconcile provisions an object once it has quota. The controller calls it after each change of the object or its
// claim.
func reconcile(ctx context.Context, quota *claims.Client, object *corev1.ConfigMap, conditions *[]metav1.Condition) error {
	consumer := quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization", Name: "acme"}
	decision, err := quota.Ensure(ctx, claims.For(object, consumer, claims.Amount("platform.example.com/units", 2)))
	decision.Set(conditions, object.Generation, "Ready")
	if err != nil || !decision.IsGranted() {
		return err
	}
	apimeta.SetStatusCondition(conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Provisioned"})
	return nil
}

func Example() {
	ctx, types := context.Background(), runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(types), quotav1alpha1.AddToScheme(types)); err != nil {
		panic(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "one", UID: "5f0c"}}
	api := fake.NewClientBuilder().WithScheme(types).WithObjects(object).WithStatusSubresource(&quotav1alpha1.ResourceClaim{}).Build()
	quota := &claims.Client{Client: api}

	var conditions []metav1.Condition
	show := func() {
		if err := reconcile(ctx, quota, object, &conditions); err != nil {
			fmt.Println("to be tried again:", err)
		}
		for _, c := range conditions {
			fmt.Println(c.Type, c.Status, c.Reason)
		}
	}
	show()

	// Bursar's part.
	var list quotav1alpha1.ResourceClaimList
	if err := api.List(ctx, &list, client.InNamespace("web")); err != nil {
		panic(err)
	}
	claim := &list.Items[0]
	apimeta.SetStatusCondition(&claim.Status.Conditions, metav1.Condition{Type: "Granted", Status: metav1.ConditionTrue, Reason: "QuotaAvailable"})
	if err := api.Status().Update(ctx, claim); err != nil {
		panic(err)
	}

	show()
	// Output:
	// QuotaGranted Unknown PendingEvaluation
	// Ready False PendingQuota
	// QuotaGranted True QuotaAvailable
	// Ready True Provisioned
}
