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
	// judgeWithin bounds how long the API server is asked about the definitions of one configuration.
	judgeWithin = 10 * time.Second
	// judgeAgainSoon is when it is asked again where it did not answer.
	judgeAgainSoon = 2 * time.Second
	// judgeAgain is when it is asked again about what a policy of the cluster refuses, which may change
	// while the definition does not.
	judgeAgain = time.Minute
	// judgeJitter spreads what is asked again by up to that part.
	judgeJitter = 0.2
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
	known map[string]judged // by the name of the configuration
	// onChange is called when there is another verdict than before.
	onChange func()
}

// judged is a version of a configuration with the verdict on each of its definitions.
type judged struct {
	uid        types.UID
	generation int64
	verdicts   []verdict
	// until is how long the verdicts are good for. It is zero if they are for good.
	until time.Time
}

func (j judged) isOf(config *openmcpv1alpha1.QuotaServiceConfig) bool {
	return j.uid == config.UID && j.generation == config.Generation
}

// verdict tells whether a definition can be used. The zero value is that it can be.
type verdict struct {
	kind verdictKind
	// says is why it cannot be used, or why nobody can tell.
	says string
}

type verdictKind int

const (
	usable verdictKind = iota
	// flawed is a definition that cannot be used as it is.
	flawed
	// undecided is one about which the API server gave no answer.
	undecided
	// unjudged is one about which nobody has asked yet.
	unjudged
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
			verdicts, _ := d.verdicts(config)
			all = append(all, candidate{config: config, verdicts: verdicts})
		}
	}
	return all, nil
}

// verdicts returns what is known of each definition of a configuration as it is now.
func (d *Definitions) verdicts(config *openmcpv1alpha1.QuotaServiceConfig) (verdicts []verdict, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of := d.known[config.Name]; of.isOf(config) {
		return of.verdicts, true
	}
	return slices.Repeat([]verdict{{kind: unjudged}}, len(config.Spec.Quotas)), false
}

// judge finds out which definitions of a configuration can be used, unless that is known, and when it is to be asked
// again, which is zero for never. It is called by one at a time for each configuration.
func (d *Definitions) judge(ctx context.Context, config *openmcpv1alpha1.QuotaServiceConfig) (verdicts []verdict, again time.Duration) {
	d.mu.Lock()
	before := d.known[config.Name]
	d.mu.Unlock()
	if left := time.Until(before.until); before.isOf(config) && (before.until.IsZero() || left > 0) {
		return before.verdicts, max(0, left)
	}
	now := judged{uid: config.UID, generation: config.Generation}
	ctx, cancel := context.WithTimeout(ctx, judgeWithin)
	defer cancel()
	for i, errs := range increase.ValidateDefinitions(config) {
		one, after := d.judgeOne(ctx, config, i, errs)
		if now.verdicts = append(now.verdicts, one); after > 0 && (again == 0 || after < again) {
			again = after
		}
	}
	if again > 0 {
		again = wait.Jitter(again, judgeJitter)
		now.until = time.Now().Add(again)
	}
	d.mu.Lock()
	if d.known == nil {
		d.known = map[string]judged{}
	}
	d.known[config.Name] = now
	d.mu.Unlock()
	if !before.isOf(config) || !slices.Equal(before.verdicts, now.verdicts) {
		d.onChange()
	}
	return now.verdicts, again
}

// judgeOne finds out whether a definition can be used that has these flaws already.
func (d *Definitions) judgeOne(ctx context.Context, config *openmcpv1alpha1.QuotaServiceConfig, i int, errs field.ErrorList) (v verdict, again time.Duration) {
	found, err := d.Specs.Check(ctx, increase.SpecPath(i), increase.Quota(&config.Spec.Quotas[i]))
	if errs = append(errs, found...); len(errs) > 0 {
		return verdict{flawed, errs.ToAggregate().Error()}, 0
	}
	switch {
	case err == nil:
		return verdict{}, 0
	case isRefusal(err):
		return verdict{flawed, fmt.Sprintf("%s: %v", increase.DefinitionPath(i).Child("template"), err)}, judgeAgain
	}
	return verdict{undecided, err.Error()}, judgeAgainSoon
}

// isRefusal tells whether an error is about what was asked, and not about how things are at the moment.
func isRefusal(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// forget forgets a configuration that is gone.
func (d *Definitions) forget(config string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, config)
}
