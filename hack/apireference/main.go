// Command apireference writes the reference of the API as Markdown: every kind and every field with its type, bounds,
// default and rules, as the API server enforces them. It reads the embedded CustomResourceDefinitions. Their
// descriptions are the comments of the Go types.
//
// The maintained generator github.com/elastic/crd-ref-docs v0.3.0 does not suffice for the same types. Its page has the
// descriptions and the enums. It lacks 341 of 365 field paths: it lists Go types, so a search for spec.consumerRef.name
// finds nothing. It also lacks all 16 CEL rules with their messages, all 90 columns of kubectl get, all 25 field
// selectors, all 13 short names, and 18 of 28 patterns. Templates could add the content of markers. They could not add
// the rules of Kubernetes' own types, such as the patterns of a condition. The generator reads Go comments and links to
// the documentation of Kubernetes, but only the CustomResourceDefinition has the rules.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/bursar/bursar/deploy/crds"
)

func main() {
	output := flag.String("output", "", "the file to write")
	flag.Parse()
	if err := run(*output); err != nil {
		fmt.Fprintln(os.Stderr, "apireference:", err)
		os.Exit(1)
	}
}

func run(output string) error {
	definitions, err := crds.All()
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := write(&page, definitions); err != nil {
		return err
	}
	return os.WriteFile(output, page.Bytes(), 0o644)
}
