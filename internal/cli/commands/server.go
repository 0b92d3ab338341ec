package commands

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/servers"
)

// server is the API server of a command, and the namespace in it, as kubectl's flags choose them.
type server struct {
	program      cli.Program
	flags        *genericclioptions.ConfigFlags
	isEverywhere bool
}

// addServer adds the flags of every command with an API server.
func addServer(command *cobra.Command, p cli.Program) *server {
	return &server{program: p, flags: servers.AddFlags(command)}
}

// addNamespace adds the flag for a namespace. The usage explains its purpose.
func (s *server) addNamespace(command *cobra.Command, usage string) {
	s.flags.Namespace = new(string)
	command.Flags().StringVarP(s.flags.Namespace, "namespace", "n", "", usage)
}

// addAllNamespaces adds the flag for all namespaces.
func (s *server) addAllNamespaces(command *cobra.Command, usage string) {
	command.Flags().BoolVarP(&s.isEverywhere, "all-namespaces", "A", false, usage)
}

// named returns the namespace in the flag, or "".
func (s *server) named() string { return *s.flags.Namespace }

// namespace returns the namespace in the flag or, without the flag, that of the kubeconfig.
func (s *server) namespace() (string, error) {
	namespace, _, err := s.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace of the kubeconfig: %w", err)
	}
	return namespace, nil
}

// checkNamespaces returns an error if the flags name both one namespace and all.
func (s *server) checkNamespaces() error {
	if s.isEverywhere && s.named() != "" {
		return errors.New("--all-namespaces and --namespace: choose one")
	}
	return nil
}

// config returns a configuration for the API server, for a command with an intent: to read or to write.
func (s *server) config(does servers.Intent) (*rest.Config, error) {
	return servers.Config(s.program, s.flags, does)
}

// connect returns a client for the API server.
func (s *server) connect() (client.WithWatch, error) {
	config, err := s.config(servers.Reads)
	if err != nil {
		return nil, err
	}
	return clientOf(config)
}

// addSelector adds the flag that selects objects by their labels. The usage names the objects.
func addSelector(command *cobra.Command, selector *string, usage string) {
	command.Flags().StringVarP(selector, "selector", "l", "", usage+", such as team=web,tier!=test")
}

// parseSelector parses the flag of addSelector. An empty text selects everything.
func parseSelector(text string) (labels.Selector, error) {
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	return selector, nil
}

// clientOf returns a client for the objects of quota.
func clientOf(config *rest.Config) (client.WithWatch, error) {
	types := runtime.NewScheme()
	if err := errors.Join(quotav1alpha1.AddToScheme(types), openmcpv1alpha1.AddToScheme(types)); err != nil {
		return nil, fmt.Errorf("register the API types: %w", err)
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: types})
	if err != nil {
		return nil, fmt.Errorf("reach the API server at %s: %w", config.Host, err)
	}
	return api, nil
}
