package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// manifest has the fields that Krew reads of a plugin.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string             `json:"version"`
		Homepage         string             `json:"homepage"`
		ShortDescription string             `json:"shortDescription"`
		Description      string             `json:"description"`
		Caveats          string             `json:"caveats"`
		Platforms        []manifestPlatform `json:"platforms"`
	} `json:"spec"`
}

// manifestPlatform has the place of the plugin for a platform, and the files to install from the archive.
type manifestPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
	Files  []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"files"`
}

// row is a platform in the template.
type row struct{ OS, Arch, URI, SHA256, Bin string }

// render fills the template with the checksums of the archives.
func render(dist, templateFile, of, url string) ([]byte, error) {
	parsed, err := template.New(filepath.Base(templateFile)).Option("missingkey=error").ParseFiles(templateFile)
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	var rows []row
	for _, p := range platforms {
		t := target{plugin, p}
		sum, err := sumOf(filepath.Join(dist, t.archive()))
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{p.OS, p.Arch, strings.TrimSuffix(url, "/") + "/" + t.archive(), sum, t.file()})
	}
	var content bytes.Buffer
	if err := parsed.Execute(&content, map[string]any{"Version": of, "Platforms": rows}); err != nil {
		return nil, fmt.Errorf("fill the template: %w", err)
	}
	return content.Bytes(), nil
}

const (
	// pluginName is the word after kubectl.
	pluginName = "bursar"

	// The widths allowed by Krew: of the list of plugins, and of the messages during an installation.
	shortDescriptionMax = 50
	lineMax             = 80

	apiVersion = "krew.googlecontainertools.github.com/v1alpha2"
)

var (
	// allowedName are the names of the naming guide: lower case, words with hyphens.
	allowedName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	sum         = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

// check holds a manifest to the rules of Krew: its validate-krew-manifest, its naming guide and its guide for
// manifests. name is the name of the file.
func check(name string, content []byte) error {
	var m manifest
	if err := yaml.UnmarshalStrict(content, &m); err != nil {
		return fmt.Errorf("it is no manifest: %w", err)
	}
	s := &m.Spec
	errs := []error{
		want(m.APIVersion == apiVersion && m.Kind == "Plugin", "it is a %s of %s", m.Kind, m.APIVersion),
		want(m.Metadata.Name == name, "its name is %q, that of its file %q", m.Metadata.Name, name),
		want(allowedName.MatchString(name) && !strings.HasPrefix(name, "kubectl"), "the name %q is against the naming guide", name),
		want(s.Homepage != "", "it has no homepage"),
		want(s.ShortDescription != "" && len(s.ShortDescription) <= shortDescriptionMax, "the short description has %d characters", len(s.ShortDescription)),
		want(!strings.ContainsAny(s.ShortDescription, "\r\n") && !strings.HasSuffix(s.ShortDescription, "."), "the short description is no single phrase"),
		want(s.Description != "" && longest(s.Description) <= lineMax, "a line of the description has %d characters", longest(s.Description)),
		want(longest(s.Caveats) <= lineMax, "a line of the caveats has %d characters", longest(s.Caveats)),
		checkVersion(s.Version),
		want(len(s.Platforms) > 0, "it has no platforms"),
	}
	seen := map[platform]bool{}
	for i := range s.Platforms {
		p := &s.Platforms[i]
		if err := checkPlatform(p, seen); err != nil {
			errs = append(errs, fmt.Errorf("platform %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

func want(isSo bool, otherwise string, arguments ...any) error {
	if isSo {
		return nil
	}
	return fmt.Errorf(otherwise, arguments...)
}

func longest(text string) int {
	most := 0
	for line := range strings.Lines(text) {
		most = max(most, len(strings.TrimRight(line, "\n")))
	}
	return most
}

// checkVersion holds a version to semver, with a v before it.
func checkVersion(of string) error {
	number, hasV := strings.CutPrefix(of, "v")
	if _, err := version.ParseSemantic(number); err != nil || !hasV {
		return fmt.Errorf("the version %q is no semantic version such as v1.2.3: give one with make release VERSION=v1.2.3", of)
	}
	return nil
}

func checkPlatform(p *manifestPlatform, seen map[platform]bool) error {
	labels := p.Selector.MatchLabels
	is := platform{labels["os"], labels["arch"]}
	isInstalled := len(p.Files) == 0
	for _, file := range p.Files {
		isInstalled = isInstalled || file.From == p.Bin && file.To != ""
	}
	err := errors.Join(
		want(len(labels) == 2 && is.OS != "" && is.Arch != "", "it is selected by %v, want os and arch", labels),
		want(!seen[is], "%s/%s is selected twice", is.OS, is.Arch),
		want(strings.HasPrefix(p.URI, "https://"), "the archive is at %s, want https", cmp.Or(p.URI, "no place")),
		want(strings.HasSuffix(p.URI, ".tar.gz") || strings.HasSuffix(p.URI, ".zip"), "%s is neither .tar.gz nor .zip", p.URI),
		want(sum.MatchString(p.SHA256), "the checksum is %q", p.SHA256),
		want(p.Bin != "" && strings.HasSuffix(p.Bin, ".exe") == is.isWindows(), "its binary is %q", p.Bin),
		want(isInstalled, "its binary %q is not among the files", p.Bin),
	)
	seen[is] = true
	return err
}
