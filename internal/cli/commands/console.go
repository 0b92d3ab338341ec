package commands

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/serveconsole"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/console"
	"github.com/bursar/bursar/internal/console/session"
)

// Console returns the command that runs the web console.
func Console(p cli.Program) *cobra.Command {
	var port int
	var page string
	var s *server
	command := &cobra.Command{
		Use:   "console",
		Short: "Run the web console with your own rights, and print its URL",
		Long: `Run the web console on this machine, only for you: it listens on loopback, and prints a URL that logs in once. The console
reads and writes with the credentials of your kubeconfig, so it shows what you may see and changes what you may change.`,
		Example: `  # Print a URL for the browser
  bursar console
  # As somebody else sees it, if you may impersonate
  bursar console --as alice
  # On a fixed port, for a tunnel from another machine: ssh -L 8080:127.0.0.1:8080 HOST
  bursar console --port 8080`,
		Args: cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			if !strings.HasPrefix(page, "/") {
				return fmt.Errorf("--page: %q is no page; give its path, such as /quota", page)
			}
			config, err := s.config(servers.Writes)
			if err != nil {
				return err
			}
			namespace, err := s.namespace()
			if err != nil {
				return err
			}
			return serveconsole.Loopback(command.Context(), session.Credentials{Config: config, Namespace: namespace}, port, url.QueryEscape(page), command.OutOrStdout())
		},
	}
	s = addServer(command, p)
	s.addNamespace(command, "namespace whose quota the console shows first")
	command.Flags().IntVar(&port, "port", 0, "port of loopback to listen on (default: a free one)")
	command.Flags().StringVar(&page, "page", "/", "page that the URL leads to, such as /quota or /inbox")
	command.AddCommand(newConsoleServeCommand(p))
	return command
}

// serveOptions are those of bursar console serve.
type serveOptions struct {
	cluster          serveconsole.Cluster
	isTLSTerminated  bool
	oidc             console.OIDC
	clientSecretFile string
	caFile           string
	isImpersonating  bool
	impersonate      console.Impersonate
}

// newConsoleServeCommand returns the command that runs the console of a cluster.
func newConsoleServeCommand(p cli.Program) *cobra.Command {
	var o serveOptions
	var s *server
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the web console for all users of a cluster",
		Long: `Run the web console for all users of a cluster, as the chart does with console.enabled. People log in with a bearer token, or
with a provider of OpenID Connect whose ID tokens the API server accepts. The console acts with their credentials and needs
no rights of its own, unless --impersonate is set: then it impersonates the users in the ID tokens, as far as it may.`,
		Example: `  # With tokens
  bursar console serve --tls-cert-file tls.crt --tls-key-file tls.key
  # With a provider of identities
  bursar console serve --tls-cert-file tls.crt --tls-key-file tls.key --url https://quota.example.com \
    --oidc-issuer-url https://login.example.com --oidc-client-id bursar --oidc-client-secret-file secret`,
		Args: cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.complete(s); err != nil {
				return err
			}
			return o.cluster.Run(command.Context())
		},
	}
	s = addServer(command, p)
	o.addFlags(command)
	return command
}

func (o *serveOptions) addFlags(command *cobra.Command) {
	f := command.Flags()
	f.StringVar(&o.cluster.Listen, "listen", ":8443", "host:port to listen on")
	f.StringVar(&o.cluster.CertFile, "tls-cert-file", "", "certificate of the console; it is read again when it changes")
	f.StringVar(&o.cluster.KeyFile, "tls-key-file", "", "key of the certificate")
	f.BoolVar(&o.isTLSTerminated, "tls-terminated", false, "listen without TLS, because a proxy in front terminates it")
	f.StringVar(&o.oidc.URL, "url", "", "URL of the console for browsers, without a path, such as https://quota.example.com; OpenID Connect needs it")
	f.StringVar(&o.oidc.IssuerURL, "oidc-issuer-url", "", "URL of the provider of OpenID Connect (default: people log in with tokens)")
	f.StringVar(&o.oidc.ClientID, "oidc-client-id", "", "ID of the console as a client of the provider")
	f.StringVar(&o.clientSecretFile, "oidc-client-secret-file", "", "file with the secret of the client (default: a public client)")
	f.StringVar(&o.oidc.Name, "oidc-name", "OpenID Connect", "what people call the provider")
	f.StringSliceVar(&o.oidc.Scopes, "oidc-scopes", nil, "scopes besides openid, such as email,groups")
	f.StringVar(&o.caFile, "oidc-ca-file", "", "certificate authorities of the provider (default: the system's)")
	f.BoolVar(&o.isImpersonating, "impersonate", false, "impersonate the user in the ID token, for an API server that does not trust the provider")
	f.StringVar(&o.impersonate.UsernameClaim, "oidc-username-claim", "sub", "with --impersonate, the claim with the username")
	f.StringVar(&o.impersonate.UsernamePrefix, "oidc-username-prefix", "", "with --impersonate, prefix of usernames")
	f.StringVar(&o.impersonate.GroupsClaim, "oidc-groups-claim", "", "with --impersonate, the claim with the groups (default: users have none)")
	f.StringSliceVar(&o.impersonate.Groups, "impersonate-groups", nil, "with --impersonate, the only groups to impersonate, with their prefix, such as finance,web (default: all)")
	f.StringVar(&o.impersonate.GroupsPrefix, "oidc-groups-prefix", "", "with --impersonate, prefix of groups")
}

// complete checks the flags and makes the login.
func (o *serveOptions) complete(s *server) error {
	hasCertificate := o.cluster.CertFile != "" && o.cluster.KeyFile != ""
	switch {
	case (o.cluster.CertFile != "") != (o.cluster.KeyFile != ""):
		return errors.New("--tls-cert-file and --tls-key-file need each other")
	case hasCertificate == o.isTLSTerminated:
		return errors.New("give either --tls-cert-file and --tls-key-file, or --tls-terminated where a proxy in front terminates TLS: browsers keep a session by TLS only")
	case (o.oidc.IssuerURL != "") != (o.oidc.ClientID != ""):
		return errors.New("--oidc-issuer-url and --oidc-client-id need each other")
	case o.isImpersonating && o.oidc.IssuerURL == "":
		return errors.New("--impersonate needs --oidc-issuer-url: it impersonates the users whom the provider logs in")
	case o.oidc.IssuerURL != "" && !isOrigin(o.oidc.URL):
		return fmt.Errorf("--url: %q is no URL of the console such as https://quota.example.com; the provider leads browsers back to it", o.oidc.URL)
	}
	config, err := s.config(servers.Writes)
	if err != nil {
		return err
	}
	o.cluster.Login = console.Server{API: rest.AnonymousClientConfig(config)}
	if o.oidc.IssuerURL == "" {
		return nil
	}
	o.cluster.Login.OIDC = &o.oidc
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
func (o *serveOptions) readFiles() error {
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
