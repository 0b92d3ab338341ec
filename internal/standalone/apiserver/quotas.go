package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	quotageneric "k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/quota/v1/install"
)

const (
	quotaWorkers = 2
	// quotaResync is the time between two full counts of ResourceQuotas. A ResourceQuota may name a kind not yet served
	// at its creation, such as Bursar's own right after the start. The next full count includes it.
	quotaResync = 30 * time.Second
)

// newQuotaController returns the controller that counts the usage of ResourceQuotas. It counts objects of all kinds;
// there are no Pods, volumes and Services here with resources to count. run runs it until ctx ends.
func newQuotaController(ctx context.Context, client kubernetes.Interface, typed informers.SharedInformerFactory, all informerfactory.InformerFactory, started <-chan struct{}) (run func(), err error) {
	none := func(schema.GroupVersionResource) bool { return false }
	evaluators, err := core.NewEvaluators(quotageneric.ListerFuncForResourceFunc(typed.ForResource), typed, none)
	if err != nil {
		return nil, fmt.Errorf("make the evaluators of ResourceQuotas: %w", err)
	}
	discover := client.Discovery().ServerPreferredNamespacedResources
	controller, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     typed.Core().V1().ResourceQuotas(),
		ResyncPeriod:              func() time.Duration { return quotaResync },
		Registry:                  quotageneric.NewRegistry(evaluators),
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      install.DefaultIgnoredResources,
		InformersStarted:          started,
		InformerFactory:           all,
		ReplenishmentResyncPeriod: func() time.Duration { return 0 },
		UpdateFilter:              install.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, fmt.Errorf("make the ResourceQuota controller: %w", err)
	}
	return func() {
		var group sync.WaitGroup
		group.Go(func() { controller.Run(ctx, quotaWorkers) })
		group.Go(func() { controller.Sync(ctx, discover, discoveryInterval) })
		group.Wait()
	}, nil
}
