package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// checkAccepted asks the API server about each claim: would it have accepted the claim in a request? The standalone
// server writes claims past the API server, so nothing else notices an invalid one. checkAccepted ends with the last
// test.
func checkAccepted(config *rest.Config) error {
	as := rest.CopyConfig(config)
	as.Impersonate = asOperator
	client, err := dynamic.NewForConfig(as)
	if err != nil {
		return err
	}
	resource := quotav1alpha1.GroupVersion.WithResource("resourceclaims")
	granted := resource
	granted.Version = quotav1alpha1.GrantedVersion

	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var refused []error
	asked := sets.New[types.UID]()
	ask := func(stored any) {
		claim := stored.(*unstructured.Unstructured).DeepCopy()
		name, uid := claim.GetNamespace()+"/"+claim.GetName(), claim.GetUID()
		claim.SetAPIVersion(granted.GroupVersion().String())
		claim.SetNamespace(metav1.NamespaceDefault) // its own may no longer exist
		claim.SetUID("")
		claim.SetResourceVersion("")
		claim.SetManagedFields(nil)
		_, err := client.Resource(granted).Namespace(metav1.NamespaceDefault).Create(ctx, claim, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		mu.Lock()
		defer mu.Unlock()
		asked.Insert(uid)
		if err != nil && !apierrors.IsAlreadyExists(err) {
			refused = append(refused, fmt.Errorf("claim %s is stored, and the API server does not accept it: %w", name, err))
		}
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(resource).Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: ask}); err != nil {
		cancel()
		return err
	}
	factory.Start(ctx.Done())
	atEnd(func() error {
		defer factory.Shutdown()
		defer cancel()
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, claim := range informer.GetStore().List() {
				if !asked.Has(claim.(*unstructured.Unstructured).GetUID()) {
					return false, nil
				}
			}
			return true, nil
		})
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(append(refused, err)...)
	})
	return nil
}
