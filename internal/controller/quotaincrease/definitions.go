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
	// validateTimeout bounds the validation of one configuration by the API server.
	validateTimeout = 10 * time.Second
	// validateRetry is the delay before the next attempt after a validation without an answer.
	validateRetry = 2 * time.Second
	// revalidateInterval is the time between two validations of a definition rejected by a policy of the cluster. The
	// policy may change while the definition does not.
	revalidateInterval = time.Minute
	// revalidateJitter is the largest random part of a delay.
	revalidateJitter = 0.2
)

// QuotaSpecs validates ResourceQuotas.
type QuotaSpecs interface {
	// Check returns the API server's errors for the spec of a ResourceQuota, with paths below path. An error means that
	// the check failed, or a policy rejects the ResourceQuota.
	Check(ctx context.Context, path *field.Path, quota *corev1.ResourceQuota) (field.ErrorList, error)
}

// Definitions knows the valid definitions. The webhook rejects invalid ones, but storage may have earlier ones from a
// time without the webhook. Definitions remembers the result for a version of a configuration. A validation takes a
// request, so only the status reconciler validates; all others use the known results.
type Definitions struct {
	Client client.Reader
	Specs  QuotaSpecs

	mu    sync.Mutex
	known map[string]validated // by the name of the configuration
	// onChange runs after a change of a result.
	onChange func(ctx context.Context)
}

// validated is a version of a configuration with the validity of each of its definitions.
type validated struct {
	uid        types.UID
	generation int64
	validities []validity
	// until is the expiry of the results. Zero means never.
	until time.Time
}

func (j validated) isOf(config *openmcpv1alpha1.QuotaServiceConfig) bool {
	return j.uid == config.UID && j.generation == config.Generation
}

// validity is the result of a definition's validation. The zero value is valid.
type validity struct {
	state validityState
	// message is the reason for any other state.
	message string
}

type validityState int

const (
	valid validityState = iota
	// invalid means that the definition is unusable.
	invalid
	// undetermined means that the API server gave no answer.
	undetermined
	// unvalidated means that no validation has run yet.
	unvalidated
)

// candidates returns all configurations except those in deletion.
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

// validities returns the known validity of each definition in the current version of a configuration.
func (d *Definitions) validities(config *openmcpv1alpha1.QuotaServiceConfig) (validities []validity, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.known[config.Name]; of.isOf(config) {
		return of.validities, true
	}
	return slices.Repeat([]validity{{state: unvalidated}}, len(config.Spec.Quotas)), false
}

// validate validates the definitions of a configuration, unless the result is known. again is the delay until the next
// validation, or zero for never. Calls for one configuration must not overlap.
func (d *Definitions) validate(ctx context.Context, config *openmcpv1alpha1.QuotaServiceConfig) (validities []validity, again time.Duration) {
	d.mu.Lock()
	before := d.known[config.Name]
	d.mu.Unlock()
	if left := time.Until(before.until); before.isOf(config) && (before.until.IsZero() || left > 0) {
		return before.validities, max(0, left)
	}
	now := validated{uid: config.UID, generation: config.Generation}
	bounded, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	for i, errs := range increase.ValidateDefinitions(config) {
		one, after := d.validateOne(bounded, config, i, errs)
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
		d.onChange(ctx)
	}
	return now.validities, again
}

// validateOne validates a definition with these errors so far.
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

// isRejection reports whether an error is about the request, and not about the state of the server.
func isRejection(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// forget forgets a deleted configuration.
func (d *Definitions) forget(config string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, config)
}
