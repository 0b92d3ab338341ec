// Package config reads the configuration file of the operator. The operator, standalone and the commands import it.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubejson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/bursar/bursar/internal/naming"
)

// APIVersion and Kind identify a configuration file.
const (
	APIVersion = "config.quota.miloapis.com/v1alpha1"
	Kind       = "OperatorConfiguration"
)

// Operator is the configuration of the operator. A field without a value has its default, given with each field.
type Operator struct {
	metav1.TypeMeta `json:",inline"`

	Quota `json:",inline"`

	// InstallCRDs makes the operator create and update its own CustomResourceDefinitions. It needs the ClusterRole
	// bursar-operator-install for that. Default: false.
	InstallCRDs bool `json:"installCRDs,omitempty"`

	// LeaderElection configures the election of the leader. It runs the controllers; all replicas serve webhooks.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// Webhooks configures how the API server reaches the webhooks.
	Webhooks Webhooks `json:"webhooks,omitempty"`
	// Endpoints are the addresses for operations.
	Endpoints Endpoints `json:"endpoints,omitempty"`
	// Logging configures the log on standard error.
	Logging Logging `json:"logging,omitempty"`
}

// LeaderElection configures how replicas elect the leader.
type LeaderElection struct {
	// LeaseDuration is the time from the last renewal of a leader until another replica replaces it. Default: 15s.
	LeaseDuration Duration `json:"leaseDuration,omitempty"`
	// RenewDeadline is how long a leader tries to renew its Lease before it stops leading. It is shorter than
	// leaseDuration. Default: 10s.
	RenewDeadline Duration `json:"renewDeadline,omitempty"`
	// RetryPeriod is the time between two attempts. renewDeadline is more than 1.2 times as long. Default: 2s.
	RetryPeriod Duration `json:"retryPeriod,omitempty"`
}

// Webhooks configures how the API server reaches the webhooks, by either Service or URL.
type Webhooks struct {
	// BindAddress is the host:port of the webhooks. Default: :9443.
	BindAddress string `json:"bindAddress,omitempty"`
	// Service is the Service of the replicas in the system namespace. Default: bursar-webhooks on port 443, unless
	// there is a URL.
	Service *Service `json:"service,omitempty"`
	// URL is where an API server outside the cluster finds the webhooks, such as https://host.example.com:9443.
	URL string `json:"url,omitempty"`
	// Certificate configures the source of the certificate.
	Certificate Certificate `json:"certificate,omitempty"`
	// ClientCertificates verify the API server's calls, by its AdmissionConfiguration. Default: none, and the path of a
	// call proves the API server's identity.
	ClientCertificates *ClientCertificates `json:"clientCertificates,omitempty"`
	// ShutdownDelay is how long a stopping replica reports that it is not ready and continues to answer. No call then
	// reaches a stopped replica. Default: 10s.
	ShutdownDelay *Duration `json:"shutdownDelay,omitempty"`
}

// Service names a Service.
type Service struct {
	// Name is the name of the Service. Required.
	Name string `json:"name"`
	// Port is the port of the Service. Default: 443.
	Port int32 `json:"port,omitempty"`
}

// CertificateSource is the owner of the Secret with the certificate.
type CertificateSource string

const (
	// SourceBursar creates the certificate, and renews it.
	SourceBursar CertificateSource = "Bursar"
	// SourceSecret uses a Secret that another client maintains, such as cert-manager.
	SourceSecret CertificateSource = "Secret"
)

// Certificate configures the source of the webhook certificate.
type Certificate struct {
	// SecretName is the Secret in the system namespace, with the keys ca.crt, tls.crt and tls.key.
	// Default: bursar-webhooks-tls.
	SecretName string `json:"secretName,omitempty"`
	// Source is the maintainer of this Secret: Bursar, or Secret for somebody else. Default: Bursar.
	Source CertificateSource `json:"source,omitempty"`
}

// ClientCertificates are the accepted client certificates of webhook calls.
type ClientCertificates struct {
	// CAFile is a file with the certificate authorities of these certificates, in PEM. It is read at the start. Required.
	CAFile string `json:"caFile"`
	// Names are the accepted common names, because the authorities may sign for others as well. Required.
	Names []string `json:"names"`
}

// Endpoints are for operations.
type Endpoints struct {
	// BindAddress is the host:port of /livez, /readyz and /metrics. Default: :8080.
	BindAddress string `json:"bindAddress,omitempty"`
	// ProfilingBindAddress is the host:port of /debug/pprof. Default: there is none.
	ProfilingBindAddress string `json:"profilingBindAddress,omitempty"`
}

// LogFormat is the format of log lines.
type LogFormat string

// The formats: one JSON object a line, or plain text.
const (
	LogJSON LogFormat = "json"
	LogText LogFormat = "text"
)

// Logging configures the log.
type Logging struct {
	// Format is the format of lines: json or text. Default: json.
	Format LogFormat `json:"format,omitempty"`
	// Verbosity is the detail of the log, from 0 to 10. Default: 0.
	Verbosity int `json:"verbosity,omitempty"`
}

// Load reads the configuration at path, or returns the defaults if path is empty. An error lists everything that is
// invalid.
func Load(path string) (*Operator, error) {
	c := &Operator{}
	var errs field.ErrorList
	if path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
		}
		errs, err = decode(content, c)
		if err != nil {
			return nil, fmt.Errorf("the configuration in %s cannot be read: %w", path, err)
		}
		if c.APIVersion != APIVersion || c.Kind != Kind {
			return nil, fmt.Errorf("the configuration in %s must begin with apiVersion: %s and kind: %s, and has %q and %q", path, APIVersion, Kind, c.APIVersion, c.Kind)
		}
	}
	c.complete()
	if errs = append(errs, c.validate()...); len(errs) > 0 {
		return nil, fmt.Errorf("the configuration in %s is wrong: %w", path, errs.ToAggregate())
	}
	return c, nil
}

// decode decodes YAML into c. The list has an error for each unknown field and each field of the wrong type; decoding
// continues with the other fields.
func decode(content []byte, c *Operator) (field.ErrorList, error) {
	inJSON, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, err
	}
	var errs field.ErrorList
	unknown, err := kubejson.UnmarshalStrict(inJSON, c)
	for _, e := range unknown {
		var at kubejson.FieldError
		if !errors.As(e, &at) {
			return nil, e
		}
		errs = append(errs, field.Forbidden(field.NewPath(at.FieldPath()), "there is no such field"))
	}
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field != "":
		errs = append(errs, field.TypeInvalid(field.NewPath(mistyped.Field), mistyped.Value, "must be of type "+mistyped.Type.String()))
	case err != nil:
		return nil, err
	}
	return errs, nil
}

func (c *Operator) complete() {
	c.Quota.Default()
	setDefault(&c.LeaderElection.LeaseDuration.Duration, 15*time.Second)
	setDefault(&c.LeaderElection.RenewDeadline.Duration, 10*time.Second)
	setDefault(&c.LeaderElection.RetryPeriod.Duration, 2*time.Second)
	setDefault(&c.Webhooks.BindAddress, ":9443")
	if c.Webhooks.URL == "" && c.Webhooks.Service == nil {
		c.Webhooks.Service = &Service{Name: "bursar-webhooks"}
	}
	if c.Webhooks.Service != nil {
		setDefault(&c.Webhooks.Service.Port, 443)
	}
	if c.Webhooks.ShutdownDelay == nil {
		c.Webhooks.ShutdownDelay = &Duration{Duration: 10 * time.Second}
	}
	setDefault(&c.Webhooks.Certificate.SecretName, naming.CertificateSecret)
	setDefault(&c.Webhooks.Certificate.Source, SourceBursar)
	setDefault(&c.Endpoints.BindAddress, ":8080")
	setDefault(&c.Logging.Format, LogJSON)
}

func setDefault[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}
