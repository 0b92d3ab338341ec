package main

import (
	"fmt"
	"regexp"
	"strings"
)

const labelsHead = `# Labels, annotations and finalizers

` + generated + `This page lists the keys that Bursar reads or sets on objects, and who sets each. Select
objects by labels; the values of annotations are for programs and for explanations. Keys that *Bursar* sets are its
own: leave them as they are.

`

// setter finds the sentence about the setter of a key.
var setter = regexp.MustCompile(`(?s)\s*(Bursar\s+sets|People\s+set)\s+it\.`)

func labelsPage(root string) (string, error) {
	var page strings.Builder
	page.WriteString(labelsHead)
	for _, section := range []struct{ title, prefix string }{{"Labels", "Label"}, {"Annotations", "Annotation"}, {"Finalizers", "Finalizer"}} {
		rows := &table{header: []string{"key", "set by", "meaning"}}
		err := eachAPI(root, func(_ string, s *source) error {
			all, err := constantsOf(s, section.prefix)
			if err != nil {
				return err
			}
			for _, c := range all {
				by, meaning, err := splitSetter(c)
				if err != nil {
					return err
				}
				rows.add(code(c.value), by, prose(meaning))
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&page, "## %s\n\n%s", section.title, rows)
	}
	return strings.TrimRight(page.String(), "\n") + "\n", nil
}

// splitSetter returns the setter of a key, and the rest of its comment. The key's own comment or that of its group
// names the setter.
func splitSetter(c constant) (by, meaning string, err error) {
	found := setter.FindStringSubmatch(c.comment)
	if found == nil {
		found = setter.FindStringSubmatch(c.about)
	}
	if found == nil {
		return "", "", fmt.Errorf("the comment of %s says neither %q nor %q", c.name, "Bursar sets it.", "People set it.")
	}
	by = strings.ToLower(strings.Fields(found[1])[0])
	if by == "bursar" {
		by = "Bursar"
	}
	return by, setter.ReplaceAllString(c.comment, ""), nil
}
