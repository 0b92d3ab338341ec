package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

// newUsageCommand returns the command that says how much of their quota consumers use.
func newUsageCommand() *cobra.Command {
	var filter usage.Filter
	var format string
	all := genericclioptions.NewConfigFlags(false)
	flags := &genericclioptions.ConfigFlags{KubeConfig: all.KubeConfig, Context: all.Context}
	command := &cobra.Command{
		Use:   "usage",
		Short: "Show how much of their quota consumers use, those first that use most of it",
		Example: `  # All consumers that one may see
  bursar usage
  # One of them, or one resource type
  bursar usage --consumer project/web --type vcpus
  # For a script
  bursar usage -o json | jq '.items[] | select(.utilization > 0.8)'`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if !slices.Contains([]usage.Format{"", usage.FormatWide, usage.FormatJSON, usage.FormatYAML}, usage.Format(format)) {
				return fmt.Errorf("--output: there is no format %q; choose json, yaml or wide", format)
			}
			return runUsage(command, flags, filter, usage.Format(format))
		},
	}
	flags.AddFlags(command.Flags())
	command.Flags().StringVarP(&filter.Namespace, "namespace", "n", "", "show what is shown in one namespace alone, which is all that tenants may see")
	command.Flags().StringVar(&filter.Consumer, "consumer", "", "show the consumer of that NAME, or KIND/NAME, alone")
	command.Flags().StringVar(&filter.ResourceType, "type", "", "show that resource type alone; what follows its last slash is enough")
	command.Flags().StringVarP(&format, "output", "o", "", "json, yaml or wide (default: a table)")
	return command
}

func runUsage(command *cobra.Command, flags *genericclioptions.ConfigFlags, filter usage.Filter, format usage.Format) error {
	if err := useRunningServer(flags); err != nil {
		return err
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	types := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(types); err != nil {
		return fmt.Errorf("register the API types: %w", err)
	}
	api, err := client.New(config, client.Options{Scheme: types})
	if err != nil {
		return fmt.Errorf("reach the API server at %s: %w", config.Host, err)
	}
	report, err := usage.Read(command.Context(), api, filter)
	if apierrors.IsForbidden(err) && filter.Namespace == "" {
		// Tenants see what is in their namespace, which their kubeconfig names.
		if filter.Namespace, _, err = flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return fmt.Errorf("find the namespace of the kubeconfig: %w", err)
		}
		report, err = usage.Read(command.Context(), api, filter)
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not see the quota that is shown in namespace %s; name another with --namespace: %w", filter.Namespace, err)
	case apimeta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return fmt.Errorf("the API server at %s does not know of quota: Bursar is not installed there", config.Host)
	case err != nil:
		return fmt.Errorf("read the usage of quota: %w", err)
	}
	if len(report.Items) == 0 && (format == "" || format == usage.FormatWide) {
		_, err := fmt.Fprintln(command.ErrOrStderr(), nothing(filter))
		return err
	}
	return report.Print(command.OutOrStdout(), format)
}

// nothing says that there is nothing to be shown, and where.
func nothing(filter usage.Filter) string {
	if filter.Namespace != "" {
		return fmt.Sprintf("No such quota is granted or used in namespace %s.", filter.Namespace)
	}
	return "No such quota is granted or used."
}

// useRunningServer has the flags name the server that runs on this machine, if there is one and nothing names another.
func useRunningServer(flags *genericclioptions.ConfigFlags) error {
	if *flags.KubeConfig != "" || *flags.Context != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return nil
	}
	kubeconfig, err := findKubeconfig()
	if err != nil {
		if _, errDefault := os.Stat(clientcmd.RecommendedHomeFile); errDefault == nil && os.Getenv(dataDirVariable) == "" {
			return nil
		}
		return err
	}
	*flags.KubeConfig = kubeconfig
	return checkAnswers(kubeconfig)
}
