package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/request"
)

// completionTimeout bounds the wait after the tab key.
const completionTimeout = 3 * time.Second

// candidates returns all values of a flag. Its errors are hidden, because the line is half typed.
type candidates func(ctx context.Context) ([]string, error)

// complete completes the values of a flag.
func complete(command *cobra.Command, flag string, values candidates) {
	err := command.RegisterFlagCompletionFunc(flag, func(command *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return completions(command, values, begun)
	})
	if err != nil {
		panic(fmt.Sprintf("complete --%s: %v", flag, err)) // the command has no such flag
	}
}

// completions returns the values that begin with what is typed.
func completions(command *cobra.Command, values candidates, begun string) ([]string, cobra.ShellCompDirective) {
	ctx := command.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	all, err := values(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(all, func(value string) bool { return !strings.HasPrefix(value, begun) }), cobra.ShellCompDirectiveNoFileComp
}

// completeUsage completes the flags of bursar usage from the EffectiveResourceGrants that the user may list.
func completeUsage(command *cobra.Command, flags *genericclioptions.ConfigFlags) {
	granted := func(of func(*quotav1alpha1.EffectiveResourceGrant) string) candidates {
		return func(ctx context.Context) ([]string, error) {
			api, _, err := connect(flags)
			if err != nil {
				return nil, err
			}
			var grants quotav1alpha1.EffectiveResourceGrantList
			if err := api.List(ctx, &grants); err != nil {
				return nil, err
			}
			values := map[string]bool{}
			for i := range grants.Items {
				values[of(&grants.Items[i])] = true
			}
			return slices.Sorted(maps.Keys(values)), nil
		}
	}
	complete(command, "type", granted(func(g *quotav1alpha1.EffectiveResourceGrant) string { return g.Spec.ResourceType }))
	complete(command, "namespace", granted(func(g *quotav1alpha1.EffectiveResourceGrant) string { return g.Namespace }))
	complete(command, "consumer", granted(func(g *quotav1alpha1.EffectiveResourceGrant) string {
		return strings.ToLower(g.Spec.ConsumerRef.Kind) + "/" + g.Spec.ConsumerRef.Name
	}))
}

// completeNamespaces completes --namespace with the namespaces of QuotaRequests.
func completeNamespaces(command *cobra.Command, flags *genericclioptions.ConfigFlags) {
	complete(command, "namespace", func(ctx context.Context) ([]string, error) {
		list, err := pendingRequests(ctx, flags, "")
		if err != nil {
			return nil, err
		}
		names := map[string]bool{}
		for i := range list.Items {
			names[list.Items[i].Namespace] = true
		}
		return slices.Sorted(maps.Keys(names)), nil
	})
}

// completeFlagRequests completes a flag with the names of the undecided requests in a namespace.
func completeFlagRequests(command *cobra.Command, flags *genericclioptions.ConfigFlags, flag string, namespace *string) {
	complete(command, flag, namesOfRequests(flags, namespace))
}

// completeArgumentRequest completes the first argument like completeFlagRequests.
func completeArgumentRequest(command *cobra.Command, flags *genericclioptions.ConfigFlags, namespace *string) {
	command.ValidArgsFunction = func(command *cobra.Command, arguments []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(arguments) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completions(command, namesOfRequests(flags, namespace), begun)
	}
}

func namesOfRequests(flags *genericclioptions.ConfigFlags, namespace *string) candidates {
	return func(ctx context.Context) ([]string, error) {
		in, err := namespaceOf(flags, *namespace)
		if err != nil {
			return nil, err
		}
		list, err := pendingRequests(ctx, flags, in)
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, nil
	}
}

// pendingRequests returns the undecided requests in a namespace, or in all if it is empty.
func pendingRequests(ctx context.Context, flags *genericclioptions.ConfigFlags, namespace string) (*quotav1alpha1.QuotaRequestList, error) {
	api, _, err := connect(flags)
	if err != nil {
		return nil, err
	}
	return request.List(ctx, api, request.Filter{Namespace: namespace})
}

// completeUser completes the flags of bursar user create from the namespaces and ClusterRoles of the server.
func completeUser(command *cobra.Command, flags *genericclioptions.ConfigFlags) {
	reach := func() (kubernetes.Interface, error) {
		config, err := findServer(flags, reads)
		if err != nil {
			return nil, err
		}
		return kubernetes.NewForConfig(config)
	}
	complete(command, "namespace", func(ctx context.Context) ([]string, error) {
		api, err := reach()
		if err != nil {
			return nil, err
		}
		list, err := api.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, nil
	})
	complete(command, "role", func(ctx context.Context) ([]string, error) {
		api, err := reach()
		if err != nil {
			return nil, err
		}
		list, err := api.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range list.Items {
			if name := list.Items[i].Name; !strings.HasPrefix(name, "system:") {
				names = append(names, strings.TrimPrefix(name, "bursar-"))
			}
		}
		return names, nil
	})
}

// completeKubectl makes kubectl complete its own arguments.
func completeKubectl(command *cobra.Command, arguments []string, begun string) ([]string, cobra.ShellCompDirective) {
	self, err := os.Executable()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx := command.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	words := append(append([]string{"kubectl", "__complete"}, arguments...), begun)
	output, err := exec.CommandContext(ctx, self, words...).Output()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return lines[:len(lines)-1], cobra.ShellCompDirective(directive)
}
