package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/why"
	"github.com/bursar/bursar/internal/manifest"
)

// inputBytesMax bounds the read of a file or of the standard input.
const inputBytesMax = 4 << 20

// newWhyCommand returns the command to explain how quota applies to an object.
func newWhyCommand(p cli.Program) *cobra.Command {
	var file string
	var out *output
	var s *server
	command := &cobra.Command{
		Use:   "why (-f FILE | KIND/NAME | -)",
		Short: "Explain how quota applies to an object, or why a request was denied",
		Long: `Explain how quota applies to an object: the matching policies, the consumer and its charge, the grants and the users of the
limit, and what to do. Name an existing object, or a file with one. The dash reads a printed error, or an object, from the standard
input. The command shows only what you may read: without access to the policies, it shows the answer of the API server.`,
		Example: `  # Would it be admitted?
  bursar why -f app.yaml
  # Why does it wait?
  bursar why instance/my-instance -n web
  # Why was it denied?
  kubectl apply -f app.yaml 2>&1 | bursar why -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if len(arguments) == 2 && file == "" {
				return fmt.Errorf("name the object as KIND/NAME: %s/%s", arguments[0], arguments[1])
			}
			if (file == "") == (len(arguments) == 0) || len(arguments) > 1 {
				return errors.New("name one thing to explain: -f FILE, KIND/NAME, or - for an error on the standard input")
			}
			switch {
			case file == "-" || len(arguments) == 1 && arguments[0] == "-":
				return explainInput(command, s, out, "", command.InOrStdin())
			case file == "":
				return explainNamed(command, s, out, arguments[0])
			}
			opened, err := os.Open(file)
			if err != nil {
				return err
			}
			defer opened.Close() //nolint:errcheck // it is only read
			return explainInput(command, s, out, file, opened)
		},
	}
	s = addServer(command, p)
	s.addNamespace(command, "the namespace of the object (default: the kubeconfig's)")
	out = addOutput(command, "sentences and tables")
	command.Flags().StringVarP(&file, "filename", "f", "", "the file with the object; it need not exist on the server")
	complete(command, "namespace", namespacesSeen(s))
	return command
}

// explainNamed explains an object of the API server.
func explainNamed(command *cobra.Command, s *server, out *output, named string) error {
	reader, err := whyReader(s)
	if err != nil {
		return err
	}
	mapper, err := s.flags.ToRESTMapper() // it knows short names and the kinds of all groups
	if err != nil {
		return fmt.Errorf("list the kinds of the API server: %w", err)
	}
	object, err := find(command.Context(), reader.API, mapper, named, reader.Namespace)
	if err != nil {
		return err
	}
	explanation, err := reader.Object(command.Context(), object, true)
	if err != nil {
		return err
	}
	return out.write(explanation.Print)
}

func whyReader(s *server) (*why.Reader, error) {
	api, err := s.connect()
	if err != nil {
		return nil, err
	}
	namespace, err := s.namespace()
	return &why.Reader{API: api, Namespace: namespace}, err
}

// explainInput explains the objects of a file or, if it has no name, of the standard input. That may have a denial
// instead. Without a flag, it looks for quota in the namespaces of the objects.
func explainInput(command *cobra.Command, s *server, out *output, file string, from io.Reader) error {
	content, err := io.ReadAll(io.LimitReader(from, inputBytesMax+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the input: %w", err)
	case len(content) > inputBytesMax:
		return fmt.Errorf("the input is larger than %d MiB; give one object, or only the error", inputBytesMax>>20)
	}
	objects, problems := manifest.Parse(string(content), manifest.Bounds{Documents: quotav1alpha1.ReviewMax})
	isDenial := file == "" && len(objects) == 0
	switch {
	case len(problems) > 0 && !isDenial:
		return fmt.Errorf("%s: %w", cmp.Or(file, "the input"), problems[0])
	case len(objects) == 0 && !isDenial:
		return fmt.Errorf("%s has no object", file)
	}
	reader, err := whyReader(s)
	if err != nil {
		return err
	}
	if isDenial {
		explanation, err := reader.Denial(command.Context(), string(content))
		if err != nil {
			return err
		}
		return out.write(explanation.Print)
	}
	namespace := reader.Namespace
	explanations := why.Explanations{}
	for _, object := range objects {
		setNamespace(reader.API, object.Unstructured, namespace)
		if s.named() == "" {
			reader.Namespace = cmp.Or(object.GetNamespace(), namespace)
		}
		explanation, err := reader.Object(command.Context(), object.Unstructured, false) // explains an existing object as in the file
		if err != nil {
			return err
		}
		explanations.Items = append(explanations.Items, explanation)
	}
	return out.write(explanations.Print)
}

// setNamespace sets the namespace of an object of a namespaced kind, if the object names none.
func setNamespace(api client.Client, object *unstructured.Unstructured, namespace string) {
	if isNamespaced, err := api.IsObjectNamespaced(object); err == nil && isNamespaced && object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
}

// find reads the object KIND/NAME. KIND may also be a resource or a short name, with or without its API group.
func find(ctx context.Context, api client.Client, mapper apimeta.RESTMapper, named, namespace string) (*unstructured.Unstructured, error) {
	kind, name, isNamed := strings.Cut(named, "/")
	if !isNamed || kind == "" || name == "" {
		return nil, fmt.Errorf("%q is not KIND/NAME, such as instance/my-instance", named)
	}
	partial := schema.ParseGroupResource(strings.ToLower(kind)).WithVersion("")
	found, err := mapper.KindFor(partial)
	if err != nil {
		if apimeta.IsNoMatchError(err) {
			return nil, fmt.Errorf("the API server does not know the kind %s: kubectl api-resources lists those it knows", kind)
		}
		return nil, fmt.Errorf("find the kind %s: %w", kind, err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(found)
	object.SetName(name)
	setNamespace(api, object, namespace)
	err = api.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s %s does not exist%s; to explain a denied object, give its file with -f, or its error with -", found.Kind, name, inNamespace(object))
	}
	return object, err
}

func inNamespace(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return ""
	}
	return " in namespace " + object.GetNamespace()
}
