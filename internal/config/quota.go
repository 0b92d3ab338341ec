package config

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// Defaults and bounds of [Quota].
const (
	DefaultSystemNamespace = "bursar-system"
	DefaultRequestTimeout  = time.Minute
	RequestTimeoutMax      = 2 * time.Minute
	// DefaultMaxObjectBytes is also the least that may be given.
	DefaultMaxObjectBytes       = 3 << 19
	DefaultConsumersMax         = 10_000
	DefaultAuditInterval        = 5 * time.Minute
	DefaultControlPlaneInterval = 30 * time.Second
	DefaultDepartedInterval     = time.Minute
)

// intervalMin bounds the intervals, and the request timeout, from below.
const intervalMin = time.Second

// Quota are the settings of enforcement that an operator on a cluster and a standalone server have in common. A field
// that is zero has its default.
type Quota struct {
	// SystemNamespace holds buckets and claims that have no namespace of their own, the Secret of the
	// webhooks' certificate, and Leases. It is created if it is missing. Default: bursar-system.
	SystemNamespace string `json:"systemNamespace,omitempty"`
	// ConsumerNamespaces say where the buckets of consumers of a kind are kept. Default: the system
	// namespace.
	ConsumerNamespaces []ConsumerNamespace `json:"consumerNamespaces,omitempty"`
	// ExceededAdvice is what people are told to do where quota is exceeded, such as where to upgrade their plan, at most
	// 500 bytes, with {{name}} standing for the consumer's name. A registration may say something else of its
	// resource type. Default: to delete what is no longer needed, or to ask an administrator.
	ExceededAdvice string `json:"exceededAdvice,omitempty"`
	// MaxObjectBytes is the size of the largest object that the etcd of the API server stores, its --max-request-bytes: at
	// least 1572864. A larger custom object is denied before it takes quota. Default: 1572864, as etcd's.
	MaxObjectBytes int `json:"maxObjectBytes,omitempty"`
	// RequestTimeout is how long the API server gives a request, its --request-timeout, from 1s to 2m: quota for a create
	// that fails after admission is held 10s longer than that. One that is less than the API server's lets a
	// slow create exceed a limit. Default: 1m, as the API server's.
	RequestTimeout Duration `json:"requestTimeout,omitempty"`
	// UsageMetrics say what is told of the quota of consumers.
	UsageMetrics Metrics `json:"metrics,omitempty"`
	// AuditInterval is the time between two audits of all ledgers. Default: 5m.
	AuditInterval Duration `json:"auditInterval,omitempty"`
	// ControlPlaneInterval is the time between two looks at the grants in another control plane.
	// Default: 30s.
	ControlPlaneInterval Duration `json:"controlPlaneInterval,omitempty"`
	// DepartedInterval is the time between two looks for consumers that no longer exist. No file says it. Default: 1m.
	DepartedInterval Duration `json:"-"`
}

// ConsumerNamespace says where the buckets of consumers of one kind are kept.
type ConsumerNamespace struct {
	// APIGroup and Kind are those of the consumers.
	APIGroup string `json:"apiGroup,omitempty"`
	Kind     string `json:"kind"`
	// Namespace is the namespace, with {{name}} standing for the consumer's name.
	Namespace string `json:"namespace"`
}

// GroupKind is the kind of the consumers.
func (n ConsumerNamespace) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: n.APIGroup, Kind: n.Kind}
}

// Metrics say what is told of the quota of consumers.
type Metrics struct {
	// ConsumersMax is how many pairs of a consumer and a resource type have series of their own, those first that are
	// used most. 0: none has, and resource types are told of alone. Default: 10000.
	ConsumersMax *int `json:"consumersMax,omitempty"`
	// AlertThresholdPercent is from which part of its limit on a consumer is near it, unless the registration or a grant
	// says otherwise: 1 to 100. Default: 80.
	AlertThresholdPercent int `json:"alertThresholdPercent,omitempty"`
}

// Namespaces returns ConsumerNamespaces by kind.
func (q *Quota) Namespaces() map[schema.GroupKind]string {
	namespaces := map[schema.GroupKind]string{}
	for _, n := range q.ConsumerNamespaces {
		namespaces[n.GroupKind()] = n.Namespace
	}
	return namespaces
}

// Default sets what is not given.
func (q *Quota) Default() {
	setDefault(&q.SystemNamespace, DefaultSystemNamespace)
	setDefault(&q.MaxObjectBytes, DefaultMaxObjectBytes)
	setDefault(&q.RequestTimeout.Duration, DefaultRequestTimeout)
	if q.UsageMetrics.ConsumersMax == nil {
		q.UsageMetrics.ConsumersMax = new(DefaultConsumersMax)
	}
	setDefault(&q.UsageMetrics.AlertThresholdPercent, quotav1alpha1.AlertThresholdDefault)
	setDefault(&q.AuditInterval.Duration, DefaultAuditInterval)
	setDefault(&q.ControlPlaneInterval.Duration, DefaultControlPlaneInterval)
	setDefault(&q.DepartedInterval.Duration, DefaultDepartedInterval)
}

// Validate returns an error for each field that is invalid, named as in the configuration file. The defaults are set before.
func (q *Quota) Validate() field.ErrorList {
	errs := checkNamespace(field.NewPath("systemNamespace"), q.SystemNamespace, q.SystemNamespace)
	errs = append(errs, q.checkConsumerNamespaces(field.NewPath("consumerNamespaces"))...)
	if len(q.ExceededAdvice) > quotav1alpha1.ExceededAdviceMax {
		errs = append(errs, field.TooLong(field.NewPath("exceededAdvice"), "", quotav1alpha1.ExceededAdviceMax))
	}
	if err := quotav1alpha1.CheckExceededAdvice(q.ExceededAdvice); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("exceededAdvice"), q.ExceededAdvice, err.Error()))
	}
	if q.MaxObjectBytes < DefaultMaxObjectBytes {
		errs = append(errs, field.Invalid(field.NewPath("maxObjectBytes"), q.MaxObjectBytes, fmt.Sprintf("must be at least %d, which etcd stores by default", DefaultMaxObjectBytes)))
	}
	errs = append(errs, q.RequestTimeout.check(field.NewPath("requestTimeout"), intervalMin)...)
	if q.RequestTimeout.Duration > RequestTimeoutMax {
		errs = append(errs, field.Invalid(field.NewPath("requestTimeout"), q.RequestTimeout.String(), "must be at most "+RequestTimeoutMax.String()))
	}
	if percent := q.UsageMetrics.AlertThresholdPercent; percent < 1 || percent > 100 {
		errs = append(errs, field.Invalid(field.NewPath("metrics", "alertThresholdPercent"), percent, "must be from 1 to 100"))
	}
	if most := *q.UsageMetrics.ConsumersMax; most < 0 {
		errs = append(errs, field.Invalid(field.NewPath("metrics", "consumersMax"), most, "must not be negative"))
	}
	errs = append(errs, q.AuditInterval.check(field.NewPath("auditInterval"), intervalMin)...)
	return append(errs, q.ControlPlaneInterval.check(field.NewPath("controlPlaneInterval"), intervalMin)...)
}

func (q *Quota) checkConsumerNamespaces(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[schema.GroupKind]bool{}
	for i, n := range q.ConsumerNamespaces {
		at, kind := path.Index(i), n.GroupKind()
		if n.Kind == "" {
			errs = append(errs, field.Required(at.Child("kind"), "name the kind of the consumers"))
		}
		if seen[kind] {
			errs = append(errs, field.Duplicate(at, kind.String()))
		}
		seen[kind] = true
		errs = append(errs, checkNamespace(at.Child("namespace"), n.Namespace, naming.ConsumerNamespace(n.Namespace, "a"))...)
	}
	return errs
}

// checkNamespace checks the name of a namespace, which is what value comes to.
func checkNamespace(path *field.Path, value, name string) field.ErrorList {
	if len(validation.IsDNS1123Label(name)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, "cannot be the name of a namespace: a namespace has lower-case letters, digits and '-' only, 63 at most, and no '-' at its ends")}
}
