package serveconsole

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/console"
)

// options are those of bursar console serve.
type options struct {
	cluster          cluster
	isTLSTerminated  bool
	oidc             console.OIDC
	clientSecretFile string
	caFile           string
	isImpersonating  bool
	impersonate      console.Impersonate
}

// Command returns bursar console serve.
func Command(p cli.Program) *cobra.Command {
	var o options
	var server *genericclioptions.ConfigFlags
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the web console for all users of a cluster",
		Long: `Run the web console for all users of a cluster, as the chart does with console.enabled. People log in with a bearer token, or
with an OpenID Connect provider, if the API server accepts its ID tokens. The console acts with their credentials and needs
no rights of its own, unless --impersonate is set: then it impersonates the users in the ID tokens, as far as it may.`,
		Example: `  # With tokens
  bursar console serve --tls-cert-file tls.crt --tls-key-file tls.key
  # With a provider of identities
  bursar console serve --tls-cert-file tls.crt --tls-key-file tls.key --url https://quota.example.com \
    --oidc-issuer-url https://login.example.com --oidc-client-id bursar --oidc-client-secret-file secret`,
		Args: cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			config, err := servers.Config(p, server, servers.Writes)
			if err != nil {
				return err
			}
			if err := o.complete(config); err != nil {
				return err
			}
			return o.cluster.run(command.Context())
		},
	}
	server = servers.AddFlags(command)
	o.addFlags(command)
	return command
}

func (o *options) addFlags(command *cobra.Command) {
	f := command.Flags()
	f.StringVar(&o.cluster.listen, "listen", ":8443", "host:port to listen on")
	f.StringVar(&o.cluster.certFile, "tls-cert-file", "", "certificate of the console; the console reloads it when it changes")
	f.StringVar(&o.cluster.systemNamespace, "system-namespace", config.DefaultSystemNamespace, "namespace of Bursar itself")
	f.StringVar(&o.cluster.keyFile, "tls-key-file", "", "key of the certificate")
	f.BoolVar(&o.isTLSTerminated, "tls-terminated", false, "listen without TLS, because a proxy in front terminates it")
	f.StringVar(&o.oidc.URL, "url", "", "URL of the console for browsers, without a path, such as https://quota.example.com; OpenID Connect needs it")
	f.StringVar(&o.oidc.IssuerURL, "oidc-issuer-url", "", "URL of the provider of OpenID Connect (default: people log in with tokens)")
	f.StringVar(&o.oidc.ClientID, "oidc-client-id", "", "ID of the console as a client of the provider")
	f.StringVar(&o.clientSecretFile, "oidc-client-secret-file", "", "file with the secret of the client (default: a public client)")
	f.StringVar(&o.oidc.Name, "oidc-name", "OpenID Connect", "name of the provider on the login page")
	f.StringSliceVar(&o.oidc.Scopes, "oidc-scopes", nil, "scopes besides openid, such as email,groups")
	f.StringVar(&o.caFile, "oidc-ca-file", "", "certificate authorities of the provider (default: the system's)")
	f.BoolVar(&o.isImpersonating, "impersonate", false, "impersonate the user in the ID token, for an API server without trust in the provider")
	f.StringVar(&o.impersonate.UsernameClaim, "oidc-username-claim", "sub", "with --impersonate, the claim with the username")
	f.StringVar(&o.impersonate.UsernamePrefix, "oidc-username-prefix", "", "with --impersonate, prefix of usernames")
	f.StringVar(&o.impersonate.GroupsClaim, "oidc-groups-claim", "", "with --impersonate, the claim with the groups (default: users have none)")
	f.StringSliceVar(&o.impersonate.Groups, "impersonate-groups", nil, "with --impersonate, the only groups to impersonate, with their prefix, such as finance,web (default: all)")
	f.StringVar(&o.impersonate.GroupsPrefix, "oidc-groups-prefix", "", "with --impersonate, prefix of groups")
}

// check returns an error if flags contradict each other.
func (o *options) check() error {
	hasCertificate := o.cluster.certFile != "" && o.cluster.keyFile != ""
	switch {
	case (o.cluster.certFile != "") != (o.cluster.keyFile != ""):
		return errors.New("--tls-cert-file and --tls-key-file need each other")
	case hasCertificate == o.isTLSTerminated:
		return errors.New("give either --tls-cert-file and --tls-key-file, or --tls-terminated where a proxy in front terminates TLS: browsers keep a session by TLS only")
	case (o.oidc.IssuerURL != "") != (o.oidc.ClientID != ""):
		return errors.New("--oidc-issuer-url and --oidc-client-id need each other")
	case o.isImpersonating && o.oidc.IssuerURL == "":
		return errors.New("--impersonate needs --oidc-issuer-url: it impersonates the users of the provider")
	case o.oidc.IssuerURL != "" && !isOrigin(o.oidc.URL):
		return fmt.Errorf("--url: %q is not a URL of the console such as https://quota.example.com; the provider leads browsers back to it", o.oidc.URL)
	}
	return nil
}

// complete makes the login, for users of the API server of config.
func (o *options) complete(config *rest.Config) error {
	o.cluster.login = console.Server{API: rest.AnonymousClientConfig(config)}
	if o.oidc.IssuerURL == "" {
		return nil
	}
	o.cluster.login.OIDC = &o.oidc
	if o.isImpersonating {
		o.impersonate.Config = config
		o.oidc.Impersonate = &o.impersonate
	}
	return o.readFiles()
}

// isOrigin reports whether a text is an https URL without a path.
func isOrigin(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.Scheme == "https" && parsed.Host != "" && parsed.Path == "" && parsed.RawQuery == ""
}

// readFiles reads the files of the provider.
func (o *options) readFiles() error {
	if o.clientSecretFile != "" {
		secret, err := os.ReadFile(o.clientSecretFile)
		if err != nil {
			return fmt.Errorf("--oidc-client-secret-file: %w", err)
		}
		o.oidc.ClientSecret = strings.TrimSpace(string(secret))
	}
	if o.caFile == "" {
		return nil
	}
	provider, err := transport.New(&transport.Config{TLS: transport.TLSConfig{CAFile: o.caFile}})
	if err != nil {
		return fmt.Errorf("--oidc-ca-file: %w", err)
	}
	o.oidc.HTTP = &http.Client{Transport: provider}
	return nil
}
