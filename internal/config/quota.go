package config

import (
	"fmt"
	"strings"
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
	// DefaultMaxObjectBytes is also the smallest valid value.
	DefaultMaxObjectBytes       = 3 << 19
	DefaultConsumersMax         = 10_000
	DefaultControlPlaneInterval = 30 * time.Second
	DefaultDepartedInterval     = time.Minute
	DefaultGrantExpiryNotice    = 7 * 24 * time.Hour
)

// intervalMin is the lower bound of the intervals and the request timeout.
const intervalMin = time.Second

// Quota are the common settings of an operator on a cluster and a standalone server. A zero field has its default.
type Quota struct {
	// SystemNamespace holds buckets and claims without a namespace of their own, the Secret of the webhooks'
	// certificate, and Leases. On a cluster it must exist. A standalone server creates it. Default: bursar-system.
	SystemNamespace string `json:"systemNamespace,omitempty"`
	// ConsumerNamespaces are the namespaces for the buckets of consumers, by kind. Default: the system namespace.
	ConsumerNamespaces []ConsumerNamespace `json:"consumerNamespaces,omitempty"`
	// ExceededAdvice is the advice for users beyond their quota, such as where to upgrade their plan, at most 500 bytes,
	// with {{name}} standing for the consumer's name. A registration may have its own advice. Default: to delete unneeded
	// objects, or to ask an administrator.
	ExceededAdvice string `json:"exceededAdvice,omitempty"`
	// MaxObjectBytes is the size of the largest object in the API server's etcd, its --max-request-bytes: at least
	// 1572864. Bursar denies a larger custom object before it takes quota. Default: 1572864, as etcd's.
	MaxObjectBytes int `json:"maxObjectBytes,omitempty"`
	// RequestTimeout is the API server's --request-timeout, from 1s to 2m. Without a report, a request that fails after
	// admission holds its quota until 10s after this time. A value below the API server's lets a slow create exceed a
	// limit. Default: 1m, as the API server's.
	RequestTimeout Duration `json:"requestTimeout,omitempty"`
	// Admission is how replicas admit creates: escrow or durable. With escrow a replica reserves quota ahead of demand,
	// where it can, and admits from it without a write. With durable it writes every reservation before the answer; a
	// policy can ask for this, too. Default: escrow.
	Admission Admission `json:"admission,omitempty"`
	// UsageMetrics configures the metrics of consumers' quota.
	UsageMetrics Metrics `json:"metrics,omitempty"`
	// ControlPlaneInterval is the time between two lists of the grants in another control plane. Default: 30s.
	ControlPlaneInterval Duration `json:"controlPlaneInterval,omitempty"`
	// GrantExpiryNotice is how long before its end a grant is expiring, at least 1s. Default: 168h, a week.
	GrantExpiryNotice Duration `json:"grantExpiryNotice,omitempty"`
	// RequestNotifications configures the receiver of the states of QuotaRequests. Default: there is none.
	RequestNotifications RequestNotifications `json:"requestNotifications,omitempty"`
	// Journal configures the record of each change of limits and use. Default: none on a cluster.
	Journal Journal `json:"journal,omitempty"`
	// ResourceQuotas configures what Bursar does with the ResourceQuotas of Kubernetes.
	ResourceQuotas ResourceQuotas `json:"resourceQuotas,omitempty"`
	// DepartedInterval is the time between two inspections of departed consumers. It is not in the file. Default: 1m.
	DepartedInterval Duration `json:"-"`
}

// Admission is how replicas admit creates.
type Admission string

const (
	// AdmissionEscrow admits from quota reserved ahead of demand, where possible.
	AdmissionEscrow Admission = "escrow"
	// AdmissionDurable writes every reservation before the answer.
	AdmissionDurable Admission = "durable"
)

// ConsumerNamespace is the namespace for the buckets of consumers of one kind.
type ConsumerNamespace struct {
	// APIGroup is the API group of the consumers, as in the consumerType of registrations. The core group has no
	// consumers. Required.
	APIGroup string `json:"apiGroup"`
	// Kind is the kind of the consumers. Required.
	Kind string `json:"kind"`
	// Namespace is the namespace, with {{name}} standing for the consumer's name. Required.
	Namespace string `json:"namespace"`
}

// GroupKind returns the kind of the consumers.
func (n ConsumerNamespace) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: n.APIGroup, Kind: n.Kind}
}

// Metrics configures the metrics of consumers' quota.
type Metrics struct {
	// ConsumersMax is how many pairs of a consumer and a resource type have series of their own, the most utilized
	// first. 0: none, only resource types have series. Default: 10000.
	ConsumersMax *int `json:"consumersMax,omitempty"`
	// AlertThresholdPercent is the percentage of a limit at which a consumer counts as near it, unless the registration,
	// a grant or a QuotaAlert has its own: 1 to 100. Default: 80.
	AlertThresholdPercent int `json:"alertThresholdPercent,omitempty"`
	// ConsumerThresholds are the bounds of consumers' own percentages. Default: 1 to 100.
	ConsumerThresholds ConsumerThresholds `json:"consumerThresholds,omitempty"`
}

// Namespaces returns ConsumerNamespaces by kind.
func (q *Quota) Namespaces() map[schema.GroupKind]string {
	namespaces := map[schema.GroupKind]string{}
	for _, n := range q.ConsumerNamespaces {
		namespaces[n.GroupKind()] = n.Namespace
	}
	return namespaces
}

// Default sets the defaults of zero fields.
func (q *Quota) Default() {
	setDefault(&q.SystemNamespace, DefaultSystemNamespace)
	setDefault(&q.MaxObjectBytes, DefaultMaxObjectBytes)
	setDefault(&q.RequestTimeout.Duration, DefaultRequestTimeout)
	setDefault(&q.Admission, AdmissionEscrow)
	if q.UsageMetrics.ConsumersMax == nil {
		q.UsageMetrics.ConsumersMax = new(DefaultConsumersMax)
	}
	setDefault(&q.UsageMetrics.AlertThresholdPercent, quotav1alpha1.AlertThresholdDefault)
	q.UsageMetrics.ConsumerThresholds.setDefaults()
	q.Journal.setDefaults()
	q.ResourceQuotas.setDefaults()
	setDefault(&q.ControlPlaneInterval.Duration, DefaultControlPlaneInterval)
	setDefault(&q.GrantExpiryNotice.Duration, DefaultGrantExpiryNotice)
	setDefault(&q.DepartedInterval.Duration, DefaultDepartedInterval)
}

// Validate returns an error for each invalid field, named as in the configuration file. Call Default first.
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
	if q.Admission != AdmissionEscrow && q.Admission != AdmissionDurable {
		errs = append(errs, field.Invalid(field.NewPath("admission"), q.Admission, "must be escrow or durable"))
	}
	if percent := q.UsageMetrics.AlertThresholdPercent; percent < 1 || percent > 100 {
		errs = append(errs, field.Invalid(field.NewPath("metrics", "alertThresholdPercent"), percent, "must be from 1 to 100"))
	}
	errs = append(errs, q.UsageMetrics.ConsumerThresholds.check(field.NewPath("metrics", "consumerThresholds"))...)
	if most := *q.UsageMetrics.ConsumersMax; most < 0 {
		errs = append(errs, field.Invalid(field.NewPath("metrics", "consumersMax"), most, "must not be negative"))
	}
	errs = append(errs, q.GrantExpiryNotice.check(field.NewPath("grantExpiryNotice"), intervalMin)...)
	errs = append(errs, q.RequestNotifications.check(field.NewPath("requestNotifications"))...)
	errs = append(errs, q.Journal.check(field.NewPath("journal"))...)
	return append(errs, q.ControlPlaneInterval.check(field.NewPath("controlPlaneInterval"), intervalMin)...)
}

func (q *Quota) checkConsumerNamespaces(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[schema.GroupKind]bool{}
	for i, n := range q.ConsumerNamespaces {
		at, kind := path.Index(i), n.GroupKind()
		if n.APIGroup == "" {
			errs = append(errs, field.Required(at.Child("apiGroup"), "name the API group of the consumers: the core group has none"))
		}
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

// checkNamespace validates the name of a namespace, the result of a template in value.
func checkNamespace(path *field.Path, value, name string) field.ErrorList {
	if len(validation.IsDNS1123Label(name)) == 0 {
		return nil
	}
	if strings.ContainsAny(name, "{}") {
		return field.ErrorList{field.Invalid(path, value, "has a variable besides "+naming.ConsumerName+", the consumer's name: it is the only one")}
	}
	return field.ErrorList{field.Invalid(path, value, "cannot be the name of a namespace: a namespace has lower-case letters, digits and '-' only, 63 at most, and no '-' at its ends")}
}
