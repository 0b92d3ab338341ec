package commands

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/kubectl/pkg/cmd/get"

	"github.com/bursar/bursar/internal/cli"
	"github.com/bursar/bursar/internal/cli/terminal"
	"github.com/bursar/bursar/internal/usage"
)

// formatName prints objects as TYPE/NAME.
const formatName usage.Format = "name"

// templates are the formats with a template, as in -o jsonpath=TEMPLATE. The printers are those of kubectl.
var templates = []string{
	"jsonpath", "jsonpath-as-json", "jsonpath-file", "custom-columns", "custom-columns-file", "go-template", "go-template-file", "template", "templatefile",
}

// output is the flag -o of a command.
type output struct {
	command *cobra.Command
	// formats are those without a template.
	formats []usage.Format
	value   string
	// printer prints the formats of kubectl, or is nil before check.
	printer printers.ResourcePrinter
}

// addOutput adds the flag -o. Every command has JSON, YAML and templates, and may have more formats. otherwise names
// the default, without the flag.
func addOutput(command *cobra.Command, otherwise string, more ...usage.Format) *output {
	o := &output{command: command, formats: append([]usage.Format{usage.FormatJSON, usage.FormatYAML}, more...)}
	command.Flags().StringVarP(&o.value, "output", "o", "",
		strings.Join(o.names(), ", ")+", jsonpath=TEMPLATE or custom-columns=SPEC (default: "+otherwise+")")
	completeValues(command, "output", append(o.names(), "jsonpath=", "custom-columns=", "go-template=")...)
	return o
}

func (o *output) names() []string {
	names := make([]string, 0, len(o.formats))
	for _, format := range o.formats {
		names = append(names, string(format))
	}
	return names
}

// format returns the format of the command's own, or "" for the printers of kubectl.
func (o *output) format() usage.Format {
	if slices.Contains(o.formats, usage.Format(o.value)) {
		return usage.Format(o.value)
	}
	return ""
}

// isForPeople reports whether the output is text for people: a table or sentences.
func (o *output) isForPeople() bool { return o.value == "" || o.value == string(usage.FormatWide) }

// check returns an error if the command has no such format.
func (o *output) check() error {
	name, _, _ := strings.Cut(o.value, "=")
	switch {
	case o.value == "" || o.format() != "" && o.format() != formatName:
		return nil
	case o.format() == formatName:
		o.printer = &printers.NamePrinter{}
		return nil
	case !slices.Contains(templates, name):
		return fmt.Errorf("--output: there is no format %q; choose %s, jsonpath=TEMPLATE or custom-columns=SPEC", o.value, strings.Join(o.names(), ", "))
	}
	var err error
	if strings.HasPrefix(name, "custom-columns") {
		o.printer, err = (&get.CustomColumnsPrintFlags{}).ToPrinter(o.value)
	} else {
		o.printer, err = genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(o.value)
	}
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return nil
}

// write writes the output of print, see text.
func (o *output) write(print func(io.Writer, usage.Format) error) error {
	text, err := o.text(print)
	if err != nil {
		return err
	}
	_, err = io.WriteString(o.command.OutOrStdout(), text)
	return err
}

// text returns the output of print: as it is, or from its JSON by a printer of kubectl. Text for people fits the width
// of the terminal, and names the running program.
func (o *output) text(print func(io.Writer, usage.Format) error) (string, error) {
	if o.isForPeople() {
		page := terminal.NewPage(o.command.OutOrStdout())
		err := print(page, o.format())
		return cli.Words(o.command, page.String()), err
	}
	var content bytes.Buffer
	if o.printer == nil {
		err := print(&content, o.format())
		return content.String(), err
	}
	if err := print(&content, usage.FormatJSON); err != nil {
		return "", err
	}
	object, err := objectOf(content.Bytes())
	if err != nil {
		return "", err
	}
	content.Reset()
	err = o.printer.PrintObj(object, &content)
	return content.String(), err
}

// objectOf returns JSON as an object for the printers of kubectl. JSON with items is a list.
func objectOf(content []byte) (runtime.Object, error) {
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, fmt.Errorf("read the JSON of the answer: %w", err)
	}
	if _, isList := fields["items"].([]any); isList {
		list := &unstructured.UnstructuredList{}
		list.SetUnstructuredContent(fields)
		return list, nil
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// during runs f. On a terminal, a line reports work that takes longer than a second.
func during[T any](command *cobra.Command, what string, f func(context.Context) (T, error)) (T, error) {
	stop := terminal.StartProgress(command.ErrOrStderr(), what)
	defer stop()
	return f(command.Context())
}
