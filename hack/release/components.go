package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// component is code of others in a binary: a module, the standard library of Go, or an embedded file.
type component struct {
	name, version string
	// isModule reports whether the go command fetches it.
	isModule bool
	// texts are its licences and notices.
	texts []text
	// licenses are the SPDX identifiers of the licences, once known.
	licenses []string
}

// text is a licence or a notice.
type text struct {
	// name is the path within the component.
	name    string
	content string
}

// listed has the fields of go list for a package.
type listed struct {
	Dir        string
	Standard   bool
	EmbedFiles []string
	Module     *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// legalName matches the names of files that say under which terms people may use code. It does not match those of
// documentation.
var legalName = regexp.MustCompile(`(?i)^(licen[cs]e|unlicense|copying|copyright|notice|patents)([-_.](md|txt|code|mit|apache|bsd|libyaml|[a-z0-9]*-?license))?$`)

// embeddedLicense ends the name of the licence of an embedded file, after the name of the component.
const embeddedLicense = "-LICENSE.txt"

// componentsOf returns the components linked by packages for the platform of the environment, by name.
func componentsOf(ctx context.Context, environment []string, packages ...string) ([]component, error) {
	out, err := output(ctx, environment, "go", append([]string{"list", "-deps", "-json=Dir,Standard,Module,EmbedFiles"}, packages...)...)
	if err != nil {
		return nil, err
	}
	golang, err := standardLibrary(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]*component{golang.name: golang}
	seen := map[string]bool{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read what go list prints: %w", err)
		}
		if err := add(found, &p, seen); err != nil {
			return nil, err
		}
	}
	var all []component
	for _, c := range found {
		slices.SortFunc(c.texts, func(a, b text) int { return cmp.Compare(a.name, b.name) })
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b component) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// add records the component of a package, with the texts in its folder and in those above. seen has the folders already
// read.
func add(found map[string]*component, p *listed, seen map[string]bool) error {
	if p.Standard || p.Module == nil {
		return nil
	}
	if p.Module.Main {
		return addEmbedded(found, p)
	}
	c := found[p.Module.Path]
	if c == nil {
		c = &component{name: p.Module.Path, version: p.Module.Version, isModule: true}
		found[c.name] = c
	}
	for folder := p.Dir; !seen[folder]; folder = filepath.Dir(folder) {
		seen[folder] = true
		if err := c.read(p.Module.Dir, folder); err != nil {
			return err
		}
		if folder == p.Module.Dir {
			break
		}
	}
	return nil
}

// read adds the texts of a folder of a module.
func (c *component) read(root, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() || !legalName.MatchString(entry.Name()) {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		c.texts = append(c.texts, text{filepath.ToSlash(name), string(content)})
	}
	return nil
}

// addEmbedded records the files embedded in a package of Bursar with a licence beside them.
func addEmbedded(found map[string]*component, p *listed) error {
	for _, name := range p.EmbedFiles {
		of, isLicense := strings.CutSuffix(filepath.Base(name), embeddedLicense)
		if !isLicense {
			continue
		}
		content, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		c := &component{name: of, texts: []text{{filepath.Base(name), string(content)}}}
		version := regexp.MustCompile(`^` + regexp.QuoteMeta(of) + `-v?(\d+\.\d+\.\d+)`)
		for _, beside := range p.EmbedFiles {
			if match := version.FindStringSubmatch(filepath.Base(beside)); match != nil {
				c.version = match[1]
			}
		}
		found[c.name] = c
	}
	return nil
}

// standardLibrary returns the standard library of the toolchain in use.
func standardLibrary(ctx context.Context) (*component, error) {
	out, err := output(ctx, nil, "go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	c := &component{name: "Go standard library", version: strings.TrimPrefix(version, "go")}
	for _, name := range []string{"LICENSE", "PATENTS"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			// Distributions keep them in a folder above.
			content, err = os.ReadFile(filepath.Join(root, "..", name))
		}
		if err != nil {
			return nil, fmt.Errorf("read the licence of Go: %w", err)
		}
		c.texts = append(c.texts, text{name, string(content)})
	}
	return c, nil
}
