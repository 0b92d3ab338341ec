// Package flags has the flags of a standalone server, without the server: the command and the reference of its flags
// share them.
package flags

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/config"
)

// DefaultUsernameClaim is the default claim for the username.
const DefaultUsernameClaim = "sub"

// Standalone are the values of the flags. Call [Standalone.Complete] once they are parsed.
type Standalone struct {
	config.Quota
	DataDir string
	// Listen is host:port.
	Listen string
	// Etcd is the connection to an existing etcd cluster. Without servers, the embedded etcd is used.
	Etcd struct {
		Servers                   []string
		CAFile, CertFile, KeyFile string
	}
	// AuthenticationConfig is a file with an AuthenticationConfiguration of Kubernetes.
	AuthenticationConfig string
	// OIDC is the provider of the flags --oidc-*.
	OIDC struct {
		IssuerURL, ClientID, CAFile   string
		UsernameClaim, UsernamePrefix string
		GroupsClaim, GroupsPrefix     string
		RequiredClaims                map[string]string
	}
	// Save makes the flags the settings of the data directory.
	Save bool
	// Verbosity is from 0 to 10.
	Verbosity int

	consumerNamespaces, requiredClaims []string
}

// Add adds all flags of a standalone server to a set.
func (s *Standalone) Add(set *pflag.FlagSet) {
	set.StringVar(&s.DataDir, "data-dir", "", "directory for all stored data (default: bursar in the user's data directory)")
	set.StringVar(&s.Listen, "listen", "127.0.0.1:7443", "host:port of the API server")
	set.StringSliceVar(&s.Etcd.Servers, "etcd-servers", nil, "URLs of an etcd cluster to use instead of the embedded etcd")
	set.StringVar(&s.Etcd.CAFile, "etcd-cafile", "", "certificate authority of the etcd servers")
	set.StringVar(&s.Etcd.CertFile, "etcd-certfile", "", "client certificate for the etcd servers")
	set.StringVar(&s.Etcd.KeyFile, "etcd-keyfile", "", "key of the client certificate for the etcd servers")
	AddQuota(set, &s.Quota)
	set.StringArrayVar(&s.consumerNamespaces, "consumer-namespace", nil, "KIND.GROUP=TEMPLATE: namespace of the buckets of consumers of a kind, with {{name}} for the consumer's name; may be repeated")
	set.StringVar(&s.AuthenticationConfig, "authentication-config", "", "file with a Kubernetes AuthenticationConfiguration: the issuers of users' tokens")
	oidc := &s.OIDC
	set.StringVar(&oidc.IssuerURL, "oidc-issuer-url", "", "URL of an OpenID Connect provider; the API server accepts its tokens")
	set.StringVar(&oidc.ClientID, "oidc-client-id", "", "audience of these tokens")
	set.StringVar(&oidc.CAFile, "oidc-ca-file", "", "certificate authority of the provider (default: those of this machine)")
	set.StringVar(&oidc.UsernameClaim, "oidc-username-claim", DefaultUsernameClaim, "claim with the user's name")
	set.StringVar(&oidc.UsernamePrefix, "oidc-username-prefix", "", "prefix of users' names, - for none (default: the URL and #, and none for the claim email)")
	set.StringVar(&oidc.GroupsClaim, "oidc-groups-claim", "", "claim with the user's groups")
	set.StringVar(&oidc.GroupsPrefix, "oidc-groups-prefix", "", "prefix of groups' names")
	set.StringArrayVar(&s.requiredClaims, "oidc-required-claim", nil, "required CLAIM=VALUE of tokens; may be repeated")
	set.BoolVar(&s.Save, "save", false, "save the given flags to config.yaml in the data directory")
	set.IntVarP(&s.Verbosity, "verbosity", "v", 0, "detail of the log file, from 0 to 10; from 1 on with the notices of the Kubernetes libraries")
}

// Complete reads the flags that are lists of pairs. It returns an error that names the flag if one is not in its form.
func (s *Standalone) Complete(set *pflag.FlagSet) error {
	if set.Changed("etcd-servers") && len(s.Etcd.Servers) == 0 {
		return errors.New("--etcd-servers is empty: name the URLs of an etcd cluster, or leave it out to use the embedded etcd")
	}
	var err error
	if s.OIDC.RequiredClaims, err = parseClaims(s.requiredClaims); err != nil {
		return err
	}
	s.ConsumerNamespaces, err = ParseConsumerNamespaces(s.consumerNamespaces)
	return err
}

// parseClaims parses values of the form CLAIM=VALUE.
func parseClaims(values []string) (map[string]string, error) {
	claims := map[string]string{}
	for _, value := range values {
		claim, desired, found := strings.Cut(value, "=")
		if !found || claim == "" {
			return nil, fmt.Errorf("--oidc-required-claim: %q is not of the form CLAIM=VALUE", value)
		}
		claims[claim] = desired
	}
	return claims, nil
}
