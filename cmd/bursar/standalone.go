package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/operate"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/internal/standalone/datadir"
)

// stopTimeout is how long a server may take to stop. It takes some seconds; systemd kills after 90.
const stopTimeout = 75 * time.Second

func newStandaloneCommand() *cobra.Command {
	var o standalone.Options
	var consumerNamespaces []string
	var requiredClaims []string
	var verbosity int
	var save bool
	command := &cobra.Command{
		Use:   "standalone",
		Short: "Run etcd, a Kubernetes API server and quota enforcement in one process",
		Example: `  bursar standalone
  # In a folder, reachable by others
  bursar standalone --data-dir data --listen 0.0.0.0:7443`,
		Args: cli.NoArguments(""),
		RunE: func(command *cobra.Command, _ []string) error {
			if o.DataDir == "" {
				var err error
				if o.DataDir, err = datadir.Default(); err != nil {
					return err
				}
			}
			toWrite, err := loadSettings(o.DataDir, command.Flags(), save, command.OutOrStdout())
			if err != nil {
				return err
			}
			if command.Flags().Changed("etcd-servers") && len(o.Etcd.Servers) == 0 {
				return errors.New("--etcd-servers is empty: name the URLs of an etcd cluster, or leave it out to use the embedded etcd")
			}
			if o.Authentication.OIDC.RequiredClaims, err = parseClaims(requiredClaims); err != nil {
				return err
			}
			if o.ConsumerNamespaces, err = standalone.ParseConsumerNamespaces(consumerNamespaces); err != nil {
				return err
			}
			return runStandalone(command, o, toWrite, verbosity)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.DataDir, "data-dir", "", "directory that holds everything that is kept (default: bursar in the user's data directory)")
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:7443", "host:port that the API server listens on")
	flags.StringSliceVar(&o.Etcd.Servers, "etcd-servers", nil, "URLs of an etcd cluster to use in place of the embedded etcd")
	flags.StringVar(&o.Etcd.CAFile, "etcd-cafile", "", "certificate authority of the etcd servers")
	flags.StringVar(&o.Etcd.CertFile, "etcd-certfile", "", "client certificate for the etcd servers")
	flags.StringVar(&o.Etcd.KeyFile, "etcd-keyfile", "", "key of the client certificate for the etcd servers")
	standalone.AddQuotaFlags(flags, &o.Quota)
	flags.StringArrayVar(&consumerNamespaces, "consumer-namespace", nil, "KIND.GROUP=TEMPLATE: namespace of the buckets of consumers of a kind, with {{name}} for the consumer's name; may be repeated")
	flags.StringVar(&o.Authentication.ConfigFile, "authentication-config", "", "file with a Kubernetes AuthenticationConfiguration, which says who issues the tokens of users")
	oidc := &o.Authentication.OIDC
	flags.StringVar(&oidc.IssuerURL, "oidc-issuer-url", "", "URL of an OpenID Connect provider whose tokens the API server accepts")
	flags.StringVar(&oidc.ClientID, "oidc-client-id", "", "audience of these tokens")
	flags.StringVar(&oidc.CAFile, "oidc-ca-file", "", "certificate authority of the provider (default: those of this machine)")
	flags.StringVar(&oidc.UsernameClaim, "oidc-username-claim", apiserver.DefaultUsernameClaim, "claim that holds the user's name")
	flags.StringVar(&oidc.UsernamePrefix, "oidc-username-prefix", "", "prefix of users' names, - for none (default: the URL and #, and none for the claim email)")
	flags.StringVar(&oidc.GroupsClaim, "oidc-groups-claim", "", "claim that holds the user's groups")
	flags.StringVar(&oidc.GroupsPrefix, "oidc-groups-prefix", "", "prefix of groups' names")
	flags.StringArrayVar(&requiredClaims, "oidc-required-claim", nil, "CLAIM=VALUE that tokens must have; may be repeated")
	flags.BoolVar(&save, "save", false, "save the given flags to config.yaml in the data directory")
	flags.IntVarP(&verbosity, "verbosity", "v", 0, "how much is written to the log file, from 0 to 10; from 1 on also the notices of the Kubernetes libraries")
	return command
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

// runStandalone runs a server until a signal. Once it serves, it writes the settings, if any, to its data directory.
func runStandalone(command *cobra.Command, o standalone.Options, toWrite settings, verbosity int) error {
	o.Out = command.OutOrStdout()
	logs := &logFile{dir: filepath.Join(o.DataDir, "logs")}
	o.Log = logs.redirect(verbosity)
	// Warnings of the API server to clients inside this process have no reader.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	forget := func() {}
	defer func() { forget() }()
	defer cli.EndAfterTimeout(command.Context(), stopTimeout, filepath.Join(logs.dir, "stuck.txt"), func(sentence string) {
		forget()
		fmt.Fprintln(command.ErrOrStderr(), "bursar:", sentence)
		os.Exit(1)
	})()
	o.OnServing = func(kubeconfig string) {
		forget = servers.Remember(kubeconfig)
		if err := toWrite.write(o.DataDir); err != nil {
			fmt.Fprintln(command.ErrOrStderr(), "bursar:", err)
		}
	}
	o.Metrics = legacyregistry.Registerer()
	server, err := standalone.Start(command.Context(), o)
	if err == nil {
		err = server.Wait()
	}
	if command.Context().Err() != nil {
		fmt.Fprintln(o.Out, "bursar: stopped")
		return nil
	}
	return err
}

// logFile receives the logs of libraries. The file is created with the first line, because the data directory may not
// exist yet, or may turn out to belong to another program.
type logFile struct {
	dir  string
	file io.Writer
}

// redirect makes klog and controller-runtime log to the file, and returns a logger for Bursar itself. Each line names
// its logger. By default libraries log only errors, because their many notices are not for operators.
func (l *logFile) redirect(verbosity int) logr.Logger {
	handler := slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.Level(-verbosity)})
	of := func(component string) slog.Handler {
		return handler.WithAttrs([]slog.Attr{slog.String("component", component)})
	}
	libraries := of("kubernetes")
	if verbosity == 0 {
		libraries = atLeast{libraries, slog.LevelWarn}
	}
	operate.SetLogger(libraries)
	return logr.FromSlogHandler(of("bursar"))
}

// atLeast is a handler that drops records below a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

// Enabled implements [slog.Handler].
func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup implements [slog.Handler].
func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}

// Write implements [io.Writer]. It drops lines before the directory exists.
func (l *logFile) Write(line []byte) (int, error) {
	if l.file == nil {
		if _, err := os.Stat(l.dir); err != nil {
			return len(line), nil
		}
		l.file = apiserver.NewLogFile(filepath.Join(l.dir, "bursar.log"))
	}
	return l.file.Write(line)
}
