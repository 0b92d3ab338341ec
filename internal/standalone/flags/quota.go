package flags

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/naming"
)

// flagOf is the flag of each field of [config.Quota].
var flagOf = map[string]string{
	"systemNamespace":                       "system-namespace",
	"consumerNamespaces":                    "consumer-namespace",
	"exceededAdvice":                        "exceeded-advice",
	"maxObjectBytes":                        "max-object-bytes",
	"requestTimeout":                        "request-timeout",
	"admission":                             "admission",
	"metrics.consumersMax":                  "consumers-max",
	"metrics.alertThresholdPercent":         "alert-threshold-percent",
	"metrics.consumerThresholds.minPercent": "consumer-threshold-min-percent",
	"metrics.consumerThresholds.maxPercent": "consumer-threshold-max-percent",
	"controlPlaneInterval":                  "control-plane-interval",
	"grantExpiryNotice":                     "grant-expiry-notice",
	"requestNotifications.url":              "request-notifications-url",
	"resourceQuotas.allocations":            "allocations",
	"resourceQuotas.increases":              "increases",
	"journal.file.directory":                "journal",
	"journal.file.retention":                "journal-retention",
	"journal.file.maxBytes":                 "journal-max-bytes",
	"journal.file.maxFileBytes":             "journal-max-file-bytes",
}

// AddQuota adds a flag for each of the settings, except for the namespaces of consumers: see
// [ParseConsumerNamespaces].
func AddQuota(flags *pflag.FlagSet, q *config.Quota) {
	q.UsageMetrics.ConsumersMax = new(int)
	q.ResourceQuotas = config.ResourceQuotas{Allocations: new(bool), Increases: new(bool)}
	flags.StringVar(&q.SystemNamespace, "system-namespace", config.DefaultSystemNamespace, "namespace of buckets, and of claims of cluster-scoped objects, without another")
	flags.StringVar(&q.ExceededAdvice, "exceeded-advice", "", "advice to people where quota is exceeded, with {{name}} for the consumer's name (default: to delete something, or to ask an administrator)")
	flags.IntVar(&q.MaxObjectBytes, "max-object-bytes", config.DefaultMaxObjectBytes, "size in bytes of the largest object in etcd, at most 2 MiB; Bursar denies a larger custom object, and it takes no quota")
	flags.DurationVar(&q.RequestTimeout.Duration, "request-timeout", config.DefaultRequestTimeout, "how long a request may take; a create that fails after admission holds its quota 10s longer")
	flags.StringVar((*string)(&q.Admission), "admission", string(config.AdmissionEscrow), "escrow: Bursar admits creates from quota reserved ahead of demand, where possible, without a write; durable: it writes every reservation before the answer")
	flags.IntVar(q.UsageMetrics.ConsumersMax, "consumers-max", config.DefaultConsumersMax, "number of pairs of a consumer and a resource type with metrics of their own, the most used first; 0 for none")
	flags.IntVar(&q.UsageMetrics.AlertThresholdPercent, "alert-threshold-percent", quotav1alpha1.AlertThresholdDefault, "percentage of its limit from which a consumer is near it, unless the registration, a grant or a QuotaAlert has another")
	flags.IntVar(&q.UsageMetrics.ConsumerThresholds.MinPercent, "consumer-threshold-min-percent", config.DefaultConsumerThresholdMinPercent, "lowest threshold in consumers' own QuotaAlerts")
	flags.IntVar(&q.UsageMetrics.ConsumerThresholds.MaxPercent, "consumer-threshold-max-percent", config.DefaultConsumerThresholdMaxPercent, "highest threshold in consumers' own QuotaAlerts")
	flags.DurationVar(&q.ControlPlaneInterval.Duration, "control-plane-interval", config.DefaultControlPlaneInterval, "time between two checks of the grants in another control plane")
	flags.DurationVar(&q.GrantExpiryNotice.Duration, "grant-expiry-notice", config.DefaultGrantExpiryNotice, "time before the end of a grant from which its conditions, events and metrics call it expiring")
	flags.StringVar(&q.RequestNotifications.URL, "request-notifications-url", "", "URL to post each state of a QuotaRequest as a CloudEvent (default: none)")
	flags.StringVar(&q.RequestNotifications.SecretFile, "request-notifications-secret-file", "", "file with the secret to sign these events by the Standard Webhooks specification")
	flags.BoolVar(q.ResourceQuotas.Allocations, "allocations", true, "serve ResourceQuotaAllocations: caps on the ResourceQuotas of many namespaces")
	flags.BoolVar(q.ResourceQuotas.Increases, "increases", true, "serve the QuotaServiceConfigs and QuotaIncreases of openMCP")
	addJournal(flags, &q.Journal)
}

// ParseConsumerNamespaces parses the values of --consumer-namespace: KIND.GROUP=TEMPLATE each.
func ParseConsumerNamespaces(values []string) ([]config.ConsumerNamespace, error) {
	var parsed []config.ConsumerNamespace
	for _, value := range values {
		name, template, found := strings.Cut(value, "=")
		kind := schema.ParseGroupKind(name)
		if !found || kind.Kind == "" || kind.Group == "" || template == "" {
			return nil, fmt.Errorf("--consumer-namespace: %q is not of the form KIND.GROUP=TEMPLATE, such as Organization.resourcemanager.example.com=organization-%s", value, naming.ConsumerName)
		}
		parsed = append(parsed, config.ConsumerNamespace{APIGroup: kind.Group, Kind: kind.Kind, Namespace: template})
	}
	return parsed, nil
}

// objectBytesMax bounds the size of one request from the API server to etcd.
const objectBytesMax = 2 << 20

// Validate returns the invalid settings, by the names of the flags.
func Validate(q *config.Quota) error {
	invalid := q.Validate()
	if q.MaxObjectBytes > objectBytesMax {
		invalid = append(invalid, field.Invalid(field.NewPath("maxObjectBytes"), q.MaxObjectBytes, fmt.Sprintf("must be at most %d, which the API server sends to etcd", objectBytesMax)))
	}
	var errs []error
	for _, e := range invalid {
		path, _, _ := strings.Cut(e.Field, "[")
		sentence := e.Detail
		switch {
		case e.Type == field.ErrorTypeDuplicate:
			sentence = fmt.Sprintf("%v is given twice", e.BadValue)
		case path != "exceededAdvice" && path != "requestNotifications.url":
			sentence = fmt.Sprintf("%v %s", e.BadValue, e.Detail)
		}
		errs = append(errs, fmt.Errorf("--%s: %s", flagOf[path], sentence))
	}
	return errors.Join(errs...)
}
