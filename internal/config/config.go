// Package config reads the configuration file of the operator.
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

// APIVersion and Kind are what a configuration file says of itself.
const (
	APIVersion = "config.quota.miloapis.com/v1alpha1"
	Kind       = "OperatorConfiguration"
)

// Operator is the configuration of the operator. What is not given has the default that stands with
// each field.
type Operator struct {
	metav1.TypeMeta `json:",inline"`

	Quota `json:",inline"`

	// InstallCRDs has the operator create and update its own CustomResourceDefinitions, for which it
	// needs the ClusterRole bursar-operator-install. Default: false.
	InstallCRDs bool `json:"installCRDs,omitempty"`

	// LeaderElection is about which replica runs the controllers. Webhooks are served by all.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// Webhooks say how the API server reaches the webhooks.
	Webhooks Webhooks `json:"webhooks,omitempty"`
	// Endpoints are for whoever runs the operator.
	Endpoints Endpoints `json:"endpoints,omitempty"`
	// Logging says what is written to the standard error, and how.
	Logging Logging `json:"logging,omitempty"`
}

// LeaderElection says how replicas agree on the one that runs the controllers.
type LeaderElection struct {
	// LeaseDuration is how long after its last sign of life a leader is replaced. Default: 15s.
	LeaseDuration Duration `json:"leaseDuration,omitempty"`
	// RenewDeadline is for how long a leader tries to renew its Lease before it gives up and ends. It is
	// shorter than LeaseDuration. Default: 10s.
	RenewDeadline Duration `json:"renewDeadline,omitempty"`
	// RetryPeriod is the time between two attempts. It is shorter than RenewDeadline. Default: 2s.
	RetryPeriod Duration `json:"retryPeriod,omitempty"`
}

// Webhooks say how the API server reaches the webhooks. Either Service or URL is given.
type Webhooks struct {
	// BindAddress is host:port that the webhooks are served on. Default: :9443.
	BindAddress string `json:"bindAddress,omitempty"`
	// Service is the Service in the system namespace that stands for the replicas. Default:
	// bursar-webhooks on port 443, unless there is a URL.
	Service *Service `json:"service,omitempty"`
	// URL is where the API server finds the webhooks that are not in the cluster, such as
	// https://host.example.com:9443.
	URL string `json:"url,omitempty"`
	// Certificate says where the certificate comes from.
	Certificate Certificate `json:"certificate,omitempty"`
	// ClientCertificates are what the API server shows when it calls, by its AdmissionConfiguration. Default: none, and
	// the API server proves itself by the path that it calls.
	ClientCertificates *ClientCertificates `json:"clientCertificates,omitempty"`
	// ShutdownDelay is for how long a replica that is asked to end says that it is not ready and goes on
	// answering, so that no call is sent to one that has gone. Default: 10s.
	ShutdownDelay *Duration `json:"shutdownDelay,omitempty"`
}

// Service names a Service.
type Service struct {
	Name string `json:"name"`
	// Port is the Service's. Default: 443.
	Port int32 `json:"port,omitempty"`
}

// CertificateSource is who keeps the Secret with the certificate.
type CertificateSource string

const (
	// SourceBursar creates the certificate, and renews it.
	SourceBursar CertificateSource = "Bursar"
	// SourceSecret takes what the Secret holds, which somebody else keeps, such as cert-manager.
	SourceSecret CertificateSource = "Secret"
)

// Certificate says where the certificate of the webhooks comes from.
type Certificate struct {
	// SecretName is the Secret in the system namespace, with the keys ca.crt, tls.crt and tls.key.
	// Default: bursar-webhooks-tls.
	SecretName string `json:"secretName,omitempty"`
	// Source is Bursar, or Secret. Default: Bursar.
	Source CertificateSource `json:"source,omitempty"`
}

// ClientCertificates are accepted from who calls the webhooks.
type ClientCertificates struct {
	// CAFile is a file with the certificate authorities that sign them, in PEM. It is read at the start.
	CAFile string `json:"caFile"`
	// Names are the common names that are accepted. Required: the authorities may sign for others as well.
	Names []string `json:"names"`
}

// Endpoints are for whoever runs the operator.
type Endpoints struct {
	// BindAddress is host:port of /livez, /readyz and /metrics. Default: :8080.
	BindAddress string `json:"bindAddress,omitempty"`
	// ProfilingBindAddress is host:port of /debug/pprof. Default: there is none.
	ProfilingBindAddress string `json:"profilingBindAddress,omitempty"`
}

// LogFormat is how log lines are written.
type LogFormat string

// The formats: one JSON object a line, or plain text.
const (
	LogJSON LogFormat = "json"
	LogText LogFormat = "text"
)

// Logging says what is logged.
type Logging struct {
	// Format is json or text. Default: json.
	Format LogFormat `json:"format,omitempty"`
	// Verbosity is from 0 to 10. Default: 0.
	Verbosity int `json:"verbosity,omitempty"`
}

// Load reads the configuration at path, or returns the defaults if path is empty. An error tells
// everything that is wrong with it.
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
			return nil, fmt.Errorf("the configuration in %s has to begin with apiVersion: %s and kind: %s, and says %q and %q", path, APIVersion, Kind, c.APIVersion, c.Kind)
		}
	}
	c.complete()
	if errs = append(errs, c.validate()...); len(errs) > 0 {
		return nil, fmt.Errorf("the configuration in %s is wrong: %w", path, errs.ToAggregate())
	}
	return c, nil
}

// decode reads YAML into c. The list has an error for each unknown field and each field of the wrong type; the others are
// read all the same.
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
