// Command apireference writes the reference of the API as Markdown: every kind and every field
// with its type, bounds, default and rules, as the API server enforces them. It reads the
// embedded CustomResourceDefinitions, whose descriptions are the comments of the Go types.
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
