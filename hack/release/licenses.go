package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	licenseclassifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are the licences for code in a binary. All permit linking with code of another licence. MPL-2.0 also asks to
// tell recipients where the source is, and the notices do so.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-Clear", "ISC", "MIT", "MPL-2.0", "Zlib"}

// spdxNames are the SPDX identifiers of licences with other names in the library.
var spdxNames = map[string]string{"BSD-0-Clause": "0BSD"}

// classifier finds the licences of texts.
type classifier struct {
	finds *licenseclassifier.Classifier
	// known are the licences of the texts so far.
	known map[string][]string
}

func newClassifier() (*classifier, error) {
	finds, err := assets.DefaultClassifier()
	if err != nil {
		return nil, fmt.Errorf("load the texts of licences: %w", err)
	}
	return &classifier{finds, map[string][]string{}}, nil
}

// all sets the licences of components. It fails for each component without one, or with one not allowed.
func (c *classifier) all(components []component) error {
	var errs []error
	for i := range components {
		component := &components[i]
		for _, t := range component.texts {
			component.licenses = append(component.licenses, c.of(t.content)...)
		}
		slices.Sort(component.licenses)
		component.licenses = slices.Compact(component.licenses)
		if len(component.licenses) == 0 {
			errs = append(errs, fmt.Errorf("%s %s has no licence that is known", component.name, component.version))
		}
		for _, license := range component.licenses {
			if !slices.Contains(allowed, license) {
				errs = append(errs, fmt.Errorf("%s %s has the licence %s, which is not allowed", component.name, component.version, license))
			}
		}
	}
	return errors.Join(errs...)
}

// of returns the licences in a text.
func (c *classifier) of(content string) []string {
	if names, ok := c.known[content]; ok {
		return names
	}
	var names []string
	for _, match := range c.finds.Match([]byte(content)).Matches {
		if match.MatchType == "License" {
			names = append(names, cmp.Or(spdxNames[match.Name], match.Name))
		}
	}
	c.known[content] = names
	return names
}

// checkLicenses checks the linked code of all binaries, for all platforms.
func checkLicenses(ctx context.Context, report io.Writer) error {
	classify, err := newClassifier()
	if err != nil {
		return err
	}
	packages := map[platform][]string{}
	for _, t := range targets() {
		packages[t.platform] = append(packages[t.platform], t.source())
	}
	counts := map[string]int{}
	seen := map[string]bool{}
	for _, p := range platforms {
		linked, err := componentsOf(ctx, target{platform: p}.environment(), packages[p]...)
		if err != nil {
			return err
		}
		if err := classify.all(linked); err != nil {
			return fmt.Errorf("for %s: %w\nLink something else, or, if the terms permit it, extend the list in hack/release/licenses.go", p, err)
		}
		for _, c := range linked {
			if !seen[c.name] {
				seen[c.name] = true
				counts[strings.Join(c.licenses, " AND ")]++
			}
		}
	}
	fmt.Fprintf(report, "%d components are linked, all under licences that are allowed:\n", len(seen))
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(report, "%5d %s\n", counts[name], name)
	}
	return nil
}
