package config

import (
	"net"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// verbosityMax is the largest verbosity with an effect in any library.
const verbosityMax = 10

func (c *Operator) validate() field.ErrorList {
	errs := c.Quota.Validate()
	errs = append(errs, c.LeaderElection.check(field.NewPath("leaderElection"))...)
	errs = append(errs, c.Webhooks.check(field.NewPath("webhooks"))...)
	errs = append(errs, c.Endpoints.check(field.NewPath("endpoints"))...)
	return append(errs, c.Logging.check(field.NewPath("logging"))...)
}

func (l *LeaderElection) check(path *field.Path) field.ErrorList {
	errs := l.RetryPeriod.check(path.Child("retryPeriod"), 100*time.Millisecond)
	errs = append(errs, l.RenewDeadline.check(path.Child("renewDeadline"), 0)...)
	if l.RenewDeadline.Duration <= l.RetryPeriod.Duration+l.RetryPeriod.Duration/5 { // the election adds a fifth of jitter
		errs = append(errs, field.Invalid(path.Child("renewDeadline"), l.RenewDeadline.String(), "must be more than 1.2 times retryPeriod"))
	}
	errs = append(errs, l.LeaseDuration.check(path.Child("leaseDuration"), time.Second)...)
	if l.LeaseDuration.Duration <= l.RenewDeadline.Duration {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"), l.LeaseDuration.String(), "must be longer than renewDeadline"))
	}
	return errs
}

func (w *Webhooks) check(path *field.Path) field.ErrorList {
	errs := checkAddress(path.Child("bindAddress"), w.BindAddress)
	errs = append(errs, w.checkWhere(path)...)
	errs = append(errs, w.Certificate.check(path.Child("certificate"))...)
	if w.ClientCertificates != nil {
		errs = append(errs, w.ClientCertificates.check(path.Child("clientCertificates"))...)
	}
	return append(errs, w.ShutdownDelay.check(path.Child("shutdownDelay"), 0)...)
}

// checkWhere validates the address of the webhooks.
func (w *Webhooks) checkWhere(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case w.URL != "" && w.Service != nil:
		errs = append(errs, field.Forbidden(path.Child("service"), "give either a service or a url"))
	case w.URL != "":
		if u, err := url.Parse(w.URL); err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			errs = append(errs, field.Invalid(path.Child("url"), w.URL, "must be of the form https://host:port"))
		}
	default:
		at := path.Child("service")
		for _, problem := range validation.IsDNS1035Label(w.Service.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), w.Service.Name, problem))
		}
		for _, problem := range validation.IsValidPortNum(int(w.Service.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), w.Service.Port, problem))
		}
	}
	return errs
}

func (c *Certificate) check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(c.SecretName) {
		errs = append(errs, field.Invalid(path.Child("secretName"), c.SecretName, problem))
	}
	if c.Source != SourceBursar && c.Source != SourceSecret {
		errs = append(errs, field.NotSupported(path.Child("source"), c.Source, []CertificateSource{SourceBursar, SourceSecret}))
	}
	return errs
}

func (c *ClientCertificates) check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.CAFile == "" {
		errs = append(errs, field.Required(path.Child("caFile"), "name the file with the certificate authorities"))
	}
	if len(c.Names) == 0 {
		errs = append(errs, field.Required(path.Child("names"), "give the common names of the API servers' certificates: the authority may sign others, too"))
	}
	return errs
}

func (e *Endpoints) check(path *field.Path) field.ErrorList {
	errs := checkAddress(path.Child("bindAddress"), e.BindAddress)
	if e.ProfilingBindAddress != "" {
		errs = append(errs, checkAddress(path.Child("profilingBindAddress"), e.ProfilingBindAddress)...)
	}
	return errs
}

func (l *Logging) check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if l.Format != LogJSON && l.Format != LogText {
		errs = append(errs, field.NotSupported(path.Child("format"), l.Format, []LogFormat{LogJSON, LogText}))
	}
	if l.Verbosity < 0 || l.Verbosity > verbosityMax {
		errs = append(errs, field.Invalid(path.Child("verbosity"), l.Verbosity, "must be from 0 to 10"))
	}
	return errs
}

func checkAddress(path *field.Path, address string) field.ErrorList {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return field.ErrorList{field.Invalid(path, address, "must be of the form host:port, or :port for all addresses")}
	}
	return nil
}
