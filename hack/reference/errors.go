package main

import (
	"fmt"
	"regexp"
	"strings"
)

const errorsHead = `# Errors for programs

` + generated + `Denied programs read the type of a cause and the HTTP status, never the text. Both are stable. [Denials](denials.md)
explains what people read, who sees figures, and how Go code reads a denial.

A cause is an element of ` + "`status.details.causes`" + ` in the answer of the API server. Its ` + "`reason`" + ` is the type below. Its
` + "`message`" + ` is JSON in the first table, and a sentence in the second. Denials without a cause,
such as those of invalid objects, stay as they are until the request changes.

`

// causes are the sections of the page, by words in the comment of each group of constants.
var causes = []struct{ title, about string }{
	{"Creates and updates of protected objects", "a create or update that Bursar denies"},
	{"ResourceQuotas under a cap", "a denied change of a ResourceQuota"},
	{"Reads of the journal", "a denied QuotaHistory"},
}

// status states the HTTP status of a cause.
var status = regexp.MustCompile(`\s*Status (\d{3}(?:, \d{3})*(?: or \d{3})?)\.`)

func errorsPage(root string) (string, error) {
	rows := map[string]*table{}
	err := eachAPI(root, func(_ string, s *source) error {
		all, err := constantsOf(s, "Cause")
		if err != nil {
			return err
		}
		for _, c := range all {
			found := status.FindStringSubmatch(c.comment)
			if found == nil {
				return fmt.Errorf("the comment of %s does not say its HTTP status, as in %q", c.name, "Status 403.")
			}
			section := sectionOf(c)
			if section == "" {
				return fmt.Errorf("the comment of %s's group does not say which denials have it", c.name)
			}
			if rows[section] == nil {
				rows[section] = &table{header: []string{"cause", "HTTP status", "meaning"}}
			}
			rows[section].add(code(c.value), found[1], prose(status.ReplaceAllString(c.comment, "")))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(errorsHead)
	for _, section := range causes {
		fmt.Fprintf(&page, "## %s\n\n%s", section.title, rows[section.title])
	}
	return strings.TrimRight(page.String(), "\n") + "\n", nil
}

func sectionOf(c constant) string {
	about := strings.Join(strings.Fields(strings.ReplaceAll(c.about, "`", "")), " ")
	for _, section := range causes {
		if strings.Contains(about, section.about) {
			return section.title
		}
	}
	return ""
}
