package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	helm       = "helm.sh/helm/v3/cmd/helm@v3.22.0"
	chartDir   = "deploy/chart/bursar"
	crdsDir    = "deploy/crds"
	changelog  = "CHANGELOG.md"
	unreleased = "repository: bursar\n" // the repository of somebody's own image
)

// makeChart packs the chart for the version, with the published image as its default and the annotations for Artifact
// Hub.
func (r *release) makeChart(ctx context.Context) error {
	scratch, err := os.MkdirTemp("", "bursar-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // it is a temporary folder
	version := strings.TrimPrefix(r.version, "v")
	if _, err := output(ctx, nil, "go", "run", helm, "package", chartDir, "--version", version, "--app-version", r.version, "--destination", scratch); err != nil {
		return err
	}
	name := "bursar-" + version + ".tgz"
	packed, err := os.ReadFile(filepath.Join(scratch, name))
	if err != nil {
		return err
	}
	files, err := readCompressed(packed)
	if err != nil {
		return err
	}
	// Helm writes the time into the archive, so makeChart packs it again.
	for i := range files {
		switch f := &files[i]; f.name {
		case "bursar/Chart.yaml":
			f.content, err = r.annotate(f.content)
		case "bursar/values.yaml":
			if strings.Count(string(f.content), unreleased) != 1 {
				err = fmt.Errorf("%s/values.yaml does not have one line %q", chartDir, strings.TrimSpace(unreleased))
			}
			f.content = []byte(strings.Replace(string(f.content), unreleased, "repository: "+r.registry+"\n", 1))
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, file{"bursar/" + name, readable, content})
	}
	fmt.Fprintln(r.progress, name)
	return pack(filepath.Join(r.dist, name), files, r.time)
}

// annotate adds the version's annotations for Artifact Hub.
func (r *release) annotate(metadata []byte) ([]byte, error) {
	var chart map[string]any
	if err := yaml.Unmarshal(metadata, &chart); err != nil {
		return nil, fmt.Errorf("read Chart.yaml: %w", err)
	}
	annotations, ok := chart["annotations"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s/Chart.yaml has no annotations", chartDir)
	}
	log, err := os.ReadFile(changelog)
	if err != nil {
		return nil, err
	}
	changes := changesOf(string(log), r.version)
	if len(changes) == 0 {
		return nil, fmt.Errorf("%s has no changes of %s, and none that are unreleased", changelog, r.version)
	}
	definitions, err := definitionsOf(crdsDir)
	if err != nil {
		return nil, err
	}
	platforms := []string{"linux/amd64", "linux/arm64"}
	for name, value := range map[string]any{
		"changes": changes,
		"crds":    definitions,
		"images":  []map[string]any{{"name": "bursar", "image": r.registry + ":" + r.version, "platforms": platforms}},
	} {
		content, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		annotations["artifacthub.io/"+name] = string(content)
	}
	annotations["artifacthub.io/prerelease"] = fmt.Sprint(strings.Contains(r.version, "-"))
	return yaml.Marshal(chart)
}

// change is an entry of the changelog, as Artifact Hub shows it.
type change struct {
	Kind        string `json:"kind"`
	Description string `json:"description"`
}

// markdownLink is a link to a page. Artifact Hub cannot follow such links.
var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// changesOf returns the entries of a version, or the unreleased ones if the changelog lacks the version: the first
// sentence of each.
func changesOf(log, version string) []change {
	sections := map[string][]change{}
	section, kind := "", ""
	var current *change
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "## "):
			section, _, _ = strings.Cut(strings.Trim(strings.TrimPrefix(line, "## "), "["), "]")
			section, _, _ = strings.Cut(section, " ")
			current = nil
		case strings.HasPrefix(line, "### "):
			kind, current = strings.ToLower(strings.TrimPrefix(line, "### ")), nil
		case strings.HasPrefix(line, "- "):
			sections[section] = append(sections[section], change{kind, strings.TrimPrefix(line, "- ")})
			current = &sections[section][len(sections[section])-1]
		case strings.HasPrefix(line, "  ") && current != nil:
			current.Description += " " + strings.TrimSpace(line)
		}
	}
	changes := sections[strings.TrimPrefix(version, "v")]
	if len(changes) == 0 {
		changes = sections["Unreleased"]
	}
	for i := range changes {
		first, _, _ := strings.Cut(changes[i].Description, ". ")
		changes[i].Description = strings.TrimSuffix(markdownLink.ReplaceAllString(first, "$1"), ".") + "."
	}
	return changes
}

// definition is a CustomResourceDefinition, as Artifact Hub shows it.
type definition struct {
	Kind        string `json:"kind"`
	Version     string `json:"version"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
}

// definitionsOf reads the definitions in a folder.
func definitionsOf(folder string) ([]definition, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []definition
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var of apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &of); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		stored := slices.IndexFunc(of.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
		if stored < 0 {
			return nil, fmt.Errorf("%s has no stored version", path)
		}
		version := of.Spec.Versions[stored]
		description, _, _ := strings.Cut(strings.ReplaceAll(version.Schema.OpenAPIV3Schema.Description, "\n", " "), ". ")
		all = append(all, definition{of.Spec.Names.Kind, version.Name, of.Name, of.Spec.Names.Kind, strings.TrimSuffix(description, ".") + "."})
	}
	slices.SortFunc(all, func(a, b definition) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}
