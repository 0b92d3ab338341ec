package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/bursar/bursar/internal/standalone/datadir"
	"github.com/bursar/bursar/internal/standalone/flags"
)

// Authentication configures the users of the API server besides those with its own client certificates and its
// ServiceAccounts.
type Authentication struct {
	// ConfigFile is a file with an AuthenticationConfiguration of Kubernetes. It is read at the start.
	ConfigFile string
	// OIDC configures one issuer of tokens, with the flags of kube-apiserver.
	OIDC OIDC
}

// OIDC describes an OpenID Connect provider, see the flags --oidc-* of kube-apiserver.
type OIDC struct {
	IssuerURL, ClientID, CAFile   string
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	RequiredClaims                map[string]string
}

func (a *Authentication) validate() error {
	o := a.OIDC
	isSet := o.IssuerURL != "" || o.ClientID != ""
	switch {
	case isSet && a.ConfigFile != "":
		return errors.New("--authentication-config and --oidc-issuer-url exclude each other: describe the issuer in the file")
	case isSet && (o.IssuerURL == "" || o.ClientID == ""):
		return errors.New("--oidc-issuer-url and --oidc-client-id need each other")
	case !isSet && o.hasDetails():
		return errors.New("the flags --oidc-... need --oidc-issuer-url and --oidc-client-id")
	default:
		return nil
	}
}

// hasDetails reports whether anything but the issuer and the audience is set.
func (o OIDC) hasDetails() bool {
	texts := []string{o.CAFile, o.GroupsClaim, o.GroupsPrefix, o.UsernamePrefix}
	return strings.Join(texts, "") != "" || len(o.RequiredClaims) > 0 || cmp.Or(o.UsernameClaim, flags.DefaultUsernameClaim) != flags.DefaultUsernameClaim
}

// configuration returns the AuthenticationConfiguration of the API server. Anonymous access is Bursar's default unless
// the user's file configures it.
func (a *Authentication) configuration() ([]byte, error) {
	configuration := map[string]any{}
	if err := yaml.Unmarshal([]byte(authenticationConfig), &configuration); err != nil {
		return nil, fmt.Errorf("read Bursar's own configuration of authentication: %w", err)
	}
	switch {
	case a.ConfigFile != "":
		content, err := os.ReadFile(a.ConfigFile)
		if err != nil {
			return nil, fmt.Errorf("--authentication-config: %s cannot be read: %w", a.ConfigFile, datadir.Reason(err))
		}
		users := map[string]any{}
		if err := yaml.Unmarshal(content, &users); err != nil {
			return nil, fmt.Errorf("--authentication-config: %s is not YAML: %w", a.ConfigFile, err)
		}
		if users["kind"] != configuration["kind"] {
			return nil, fmt.Errorf("--authentication-config: %s holds no %s of %s", a.ConfigFile, configuration["kind"], configuration["apiVersion"])
		}
		maps.Copy(configuration, users)
	case a.OIDC.IssuerURL != "":
		issuer, err := a.OIDC.authenticator()
		if err != nil {
			return nil, err
		}
		configuration["jwt"] = []any{issuer}
	}
	content, err := yaml.Marshal(configuration)
	if err != nil {
		return nil, fmt.Errorf("encode the configuration of authentication: %w", err)
	}
	return content, nil
}

// authenticator converts the flags, because kube-apiserver does not accept them together with a configuration.
func (o OIDC) authenticator() (*apiserverv1.JWTAuthenticator, error) {
	claim, prefix := o.UsernameClaim, o.UsernamePrefix
	if claim == "" {
		claim = flags.DefaultUsernameClaim
	}
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && claim != "email":
		prefix = o.IssuerURL + "#"
	}
	issuer := &apiserverv1.JWTAuthenticator{
		Issuer:        apiserverv1.Issuer{URL: o.IssuerURL, Audiences: []string{o.ClientID}},
		ClaimMappings: apiserverv1.ClaimMappings{Username: apiserverv1.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix}},
	}
	if o.GroupsClaim != "" {
		issuer.ClaimMappings.Groups = apiserverv1.PrefixedClaimOrExpression{Claim: o.GroupsClaim, Prefix: &o.GroupsPrefix}
	}
	if o.CAFile != "" {
		content, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %s cannot be read: %w", o.CAFile, datadir.Reason(err))
		}
		issuer.Issuer.CertificateAuthority = string(content)
	}
	for _, name := range slices.Sorted(maps.Keys(o.RequiredClaims)) {
		issuer.ClaimValidationRules = append(issuer.ClaimValidationRules, apiserverv1.ClaimValidationRule{Claim: name, RequiredValue: o.RequiredClaims[name]})
	}
	return issuer, nil
}
