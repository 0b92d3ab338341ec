package quotaincrease

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/internal/increase"
)

// CheckQuotaSpec tells what the API server has against the spec of a ResourceQuota, with paths below path.
// An error means that it could not be found out.
type CheckQuotaSpec func(ctx context.Context, path *field.Path, spec corev1.ResourceQuotaSpec) (field.ErrorList, error)

// Definitions tells which definitions can be used. The webhook refuses those that cannot, but they may have
// been stored before there was one. What the API server says about a version of a configuration is remembered.
type Definitions struct {
	Client client.Reader
	Check  CheckQuotaSpec

	mu    sync.Mutex
	known map[types.UID]judged
}

type judged struct {
	generation int64
	flaws      []string
}

// candidates returns all configurations that are not being deleted.
func (d *Definitions) candidates(ctx context.Context) ([]candidate, error) {
	var list openmcpv1alpha1.QuotaServiceConfigList
	if err := d.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list QuotaServiceConfigs: %w", err)
	}
	var all []candidate
	for i := range list.Items {
		config := &list.Items[i]
		if config.DeletionTimestamp != nil {
			continue
		}
		flaws, err := d.flaws(ctx, config)
		if err != nil {
			return nil, fmt.Errorf("check QuotaServiceConfig %s: %w", config.Name, err)
		}
		all = append(all, candidate{config: config, flaws: flaws})
	}
	d.forget(all)
	return all, nil
}

// flaws tells what is wrong with each definition of a configuration.
func (d *Definitions) flaws(ctx context.Context, config *openmcpv1alpha1.QuotaServiceConfig) ([]string, error) {
	d.mu.Lock()
	known, ok := d.known[config.UID]
	d.mu.Unlock()
	if ok && known.generation == config.Generation {
		return known.flaws, nil
	}
	flaws := make([]string, len(config.Spec.Quotas))
	for i, errs := range increase.Flaws(config) {
		found, err := d.Check(ctx, increase.SpecPath(i), config.Spec.Quotas[i].Template.Spec)
		if err != nil {
			return nil, err
		}
		if errs = append(errs, found...); len(errs) > 0 {
			flaws[i] = errs.ToAggregate().Error()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[types.UID]judged{}
	}
	d.known[config.UID] = judged{config.Generation, flaws}
	return flaws, nil
}

// isKnown tells whether what is wrong with a configuration, as it is now, has been looked at.
func (d *Definitions) isKnown(config *openmcpv1alpha1.QuotaServiceConfig) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[config.UID]
	return ok && known.generation == config.Generation
}

// forget forgets configurations that are gone.
func (d *Definitions) forget(all []candidate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) <= len(all) {
		return
	}
	known := map[types.UID]judged{}
	for _, each := range all {
		if was, ok := d.known[each.config.UID]; ok {
			known[each.config.UID] = was
		}
	}
	d.known = known
}
