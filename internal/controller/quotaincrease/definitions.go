package quotaincrease

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/internal/increase"
)

const (
	// validateTimeout bounds how long the API server is asked about the definitions of one configuration.
	validateTimeout = 10 * time.Second
	// validateRetry is when it is asked again where it did not answer.
	validateRetry = 2 * time.Second
	// revalidateInterval is when it is asked again about what a policy of the cluster refuses, which may change
	// while the definition does not.
	revalidateInterval = time.Minute
	// revalidateJitter spreads what is asked again by up to that part.
	revalidateJitter = 0.2
)

// QuotaSpecs judges ResourceQuotas.
type QuotaSpecs interface {
	// Check returns what the API server has against the spec of a ResourceQuota, with paths below path. An error means that
	// it could not be found out, or that a policy stands against it.
	Check(ctx context.Context, path *field.Path, quota *corev1.ResourceQuota) (field.ErrorList, error)
}

// Definitions tells which definitions can be used. The webhook refuses those that cannot, but they may have
// been stored before there was one. The verdict on a version of a configuration is remembered. To reach it takes
// a request, so only who writes the status of the configuration does; everybody else goes by what is known.
type Definitions struct {
	Client client.Reader
	Specs  QuotaSpecs

	mu    sync.Mutex
	known map[string]validated // by the name of the configuration
	// onChange is called when there is another verdict than before.
	onChange func()
}

// validated is a version of a configuration with the verdict on each of its definitions.
type validated struct {
	uid        types.UID
	generation int64
	validities []validity
	// until is how long the verdicts are good for. It is zero if they are for good.
	until time.Time
}

func (j validated) isOf(config *openmcpv1alpha1.QuotaServiceConfig) bool {
	return j.uid == config.UID && j.generation == config.Generation
}

// validity tells whether a definition can be used. The zero value is that it can be.
type validity struct {
	state validityState
	// says is why it cannot be used, or why nobody can tell.
	message string
}

type validityState int

const (
	valid validityState = iota
	// invalid is a definition that cannot be used as it is.
	invalid
	// undetermined is one about which the API server gave no answer.
	undetermined
	// unvalidated is one about which nobody has asked yet.
	unvalidated
)

// candidates returns all configurations that are not being deleted.
func (d *Definitions) candidates(ctx context.Context) ([]candidate, error) {
	var list openmcpv1alpha1.QuotaServiceConfigList
	if err := d.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list QuotaServiceConfigs: %w", err)
	}
	var all []candidate
	for i := range list.Items {
		if config := &list.Items[i]; config.DeletionTimestamp == nil {
			validities, _ := d.validities(config)
			all = append(all, candidate{config: config, validities: validities})
		}
	}
	return all, nil
}

// verdicts returns what is known of each definition of a configuration as it is now.
func (d *Definitions) validities(config *openmcpv1alpha1.QuotaServiceConfig) (validities []validity, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.known[config.Name]; of.isOf(config) {
		return of.validities, true
	}
	return slices.Repeat([]validity{{state: unvalidated}}, len(config.Spec.Quotas)), false
}

// judge finds out which definitions of a configuration can be used, unless that is known, and when it is to be asked
// again, which is zero for never. It is called by one at a time for each configuration.
func (d *Definitions) validate(ctx context.Context, config *openmcpv1alpha1.QuotaServiceConfig) (validities []validity, again time.Duration) {
	d.mu.Lock()
	before := d.known[config.Name]
	d.mu.Unlock()
	if left := time.Until(before.until); before.isOf(config) && (before.until.IsZero() || left > 0) {
		return before.validities, max(0, left)
	}
	now := validated{uid: config.UID, generation: config.Generation}
	ctx, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	for i, errs := range increase.ValidateDefinitions(config) {
		one, after := d.validateOne(ctx, config, i, errs)
		if now.validities = append(now.validities, one); after > 0 && (again == 0 || after < again) {
			again = after
		}
	}
	if again > 0 {
		again = wait.Jitter(again, revalidateJitter)
		now.until = time.Now().Add(again)
	}
	d.mu.Lock()
	if d.known == nil {
		d.known = map[string]validated{}
	}
	d.known[config.Name] = now
	d.mu.Unlock()
	if !before.isOf(config) || !slices.Equal(before.validities, now.validities) {
		d.onChange()
	}
	return now.validities, again
}

// validateOne finds out whether a definition can be used that has these flaws already.
func (d *Definitions) validateOne(ctx context.Context, config *openmcpv1alpha1.QuotaServiceConfig, i int, errs field.ErrorList) (v validity, again time.Duration) {
	found, err := d.Specs.Check(ctx, increase.SpecPath(i), increase.Quota(&config.Spec.Quotas[i]))
	if errs = append(errs, found...); len(errs) > 0 {
		return validity{invalid, errs.ToAggregate().Error()}, 0
	}
	switch {
	case err == nil:
		return validity{}, 0
	case isRejection(err):
		return validity{invalid, fmt.Sprintf("%s: %v", increase.DefinitionPath(i).Child("template"), err)}, revalidateInterval
	}
	return validity{undetermined, err.Error()}, validateRetry
}

// isRejection tells whether an error is about what was asked, and not about how things are at the moment.
func isRejection(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// forget forgets a configuration that is gone.
func (d *Definitions) forget(config string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, config)
}
