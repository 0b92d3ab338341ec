package commands

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/cli/servers"
)

// completionTimeout bounds the wait after the tab key.
const completionTimeout = 3 * time.Second

// candidates returns all values of a flag. Nobody sees its errors, because the line is half typed.
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

// completions returns the values with the typed beginning.
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
	all = slices.DeleteFunc(all, func(value string) bool { return !strings.HasPrefix(value, begun) })
	directive := cobra.ShellCompDirectiveNoFileComp
	if slices.ContainsFunc(all, func(value string) bool { return strings.HasSuffix(value, "=") }) {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return all, directive
}

// grantsSeen completes with a property of the EffectiveResourceGrants visible to the user: all, or those of the
// namespace.
func grantsSeen(s *server, of func(*quotav1alpha1.EffectiveResourceGrant) string) candidates {
	return func(ctx context.Context) ([]string, error) {
		api, err := s.connect()
		if err != nil {
			return nil, err
		}
		var grants quotav1alpha1.EffectiveResourceGrantList
		err = api.List(ctx, &grants)
		if apierrors.IsForbidden(err) {
			var namespace string
			if namespace, err = s.namespace(); err == nil {
				err = api.List(ctx, &grants, client.InNamespace(namespace))
			}
		}
		if err != nil {
			return nil, err
		}
		values := map[string]bool{}
		for i := range grants.Items {
			values[of(&grants.Items[i])] = true
		}
		return slices.Sorted(maps.Keys(values)), nil
	}
}

func typeOf(g *quotav1alpha1.EffectiveResourceGrant) string { return g.Spec.ResourceType }

func namespaceShown(g *quotav1alpha1.EffectiveResourceGrant) string { return g.Namespace }

// consumerOf returns a consumer as kind/NAME.
func consumerOf(g *quotav1alpha1.EffectiveResourceGrant) string {
	return strings.ToLower(g.Spec.ConsumerRef.Kind) + "/" + g.Spec.ConsumerRef.Name
}

// fullConsumerOf returns a consumer as KIND.GROUP/NAME, or as KIND.GROUP/NAMESPACE/NAME.
func fullConsumerOf(g *quotav1alpha1.EffectiveResourceGrant) string {
	ref := g.Spec.ConsumerRef
	return strings.TrimSuffix(ref.Kind+"."+ref.APIGroup, ".") + "/" + path.Join(ref.Namespace, ref.Name)
}

// completeUsage completes the flags of bursar usage.
func completeUsage(command *cobra.Command, s *server) {
	complete(command, "type", grantsSeen(s, typeOf))
	complete(command, "namespace", grantsSeen(s, namespaceShown))
	complete(command, "consumer", grantsSeen(s, consumerOf))
}

// completeJournal completes the namespace of commands that read the journal, and files for its location.
func completeJournal(command *cobra.Command, s *server) {
	complete(command, "namespace", grantsSeen(s, namespaceShown))
	if err := command.MarkFlagFilename("journal"); err != nil {
		panic(fmt.Sprintf("complete --journal: %v", err)) // the command has no such flag
	}
}

// completeValues completes a flag with fixed values.
func completeValues(command *cobra.Command, flag string, values ...string) {
	complete(command, flag, func(context.Context) ([]string, error) { return slices.Clone(values), nil })
}

// completeNamespaces completes --namespace with the namespaces of QuotaRequests.
func completeNamespaces(command *cobra.Command, s *server) {
	complete(command, "namespace", func(ctx context.Context) ([]string, error) {
		list, err := pendingRequests(ctx, s, "")
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

// namesOf completes with the names of the objects of a list, in the namespace of the flags.
func namesOf(s *server, empty client.ObjectList) candidates {
	return func(ctx context.Context) ([]string, error) {
		api, err := s.connect()
		if err != nil {
			return nil, err
		}
		options := &client.ListOptions{}
		if s.flags.Namespace != nil {
			if options.Namespace, err = s.namespace(); err != nil {
				return nil, err
			}
		}
		if err := api.List(ctx, empty, options); err != nil {
			return nil, err
		}
		var names []string
		err = apimeta.EachListItem(empty, func(object runtime.Object) error {
			named, err := apimeta.Accessor(object)
			if err == nil {
				names = append(names, named.GetName())
			}
			return err
		})
		return names, err
	}
}

// namespacesSeen completes with all namespaces. For users without the right to list them, it takes those of
// EffectiveResourceGrants.
func namespacesSeen(s *server) candidates {
	return func(ctx context.Context) ([]string, error) {
		config, err := s.config(servers.Reads)
		if err != nil {
			return nil, err
		}
		api, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		list, err := api.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return grantsSeen(s, namespaceShown)(ctx)
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, nil
	}
}

// amountsOf completes with the beginning of an amount of each resource type, as TYPE=.
func amountsOf(s *server) candidates {
	return grantsSeen(s, func(g *quotav1alpha1.EffectiveResourceGrant) string { return path.Base(typeOf(g)) + "=" })
}

// completeFlagRequests completes a flag with the names of the undecided requests in a namespace.
func completeFlagRequests(command *cobra.Command, s *server, flag string) {
	complete(command, flag, namesOfRequests(s))
}

// completeArgument completes the first argument.
func completeArgument(command *cobra.Command, values candidates) {
	command.ValidArgsFunction = func(command *cobra.Command, arguments []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(arguments) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completions(command, values, begun)
	}
}

// completeDecision completes the name of a request, and after it the amounts.
func completeDecision(command *cobra.Command, s *server) {
	command.ValidArgsFunction = func(command *cobra.Command, arguments []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(arguments) > 0 {
			return completions(command, amountsOf(s), begun)
		}
		return completions(command, namesOfRequests(s), begun)
	}
}

func namesOfRequests(s *server) candidates {
	return func(ctx context.Context) ([]string, error) {
		in, err := s.namespace()
		if err != nil {
			return nil, err
		}
		list, err := pendingRequests(ctx, s, in)
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
func pendingRequests(ctx context.Context, s *server, namespace string) (*quotav1alpha1.QuotaRequestList, error) {
	api, err := s.connect()
	if err != nil {
		return nil, err
	}
	return request.List(ctx, api, request.Filter{Namespace: namespace})
}

// completeUser completes the flags of bursar user create from the namespaces and ClusterRoles of the server.
func completeUser(command *cobra.Command, s *server) {
	complete(command, "namespace", namespacesSeen(s))
	complete(command, "role", func(ctx context.Context) ([]string, error) {
		config, err := s.config(servers.Reads)
		if err != nil {
			return nil, err
		}
		api, err := kubernetes.NewForConfig(config)
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
