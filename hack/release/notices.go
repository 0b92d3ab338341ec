package main

import (
	"fmt"
	"os"
	"strings"
)

// noticesName is the file with the licences and notices of code of others.
const noticesName = "THIRD_PARTY_NOTICES.txt"

// legalFiles are the legal files beside a binary: our licence and notice, and those of the components.
func legalFiles(linked []component) ([]file, error) {
	var files []file
	for _, name := range []string{"LICENSE", "NOTICE"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, readable, content})
	}
	return append(files, file{noticesName, readable, []byte(notices(linked))}), nil
}

// notices lists components, and then each text once with all its components.
func notices(linked []component) string {
	var list, texts strings.Builder
	list.WriteString("This program contains the components below, under the licences that follow the list.\n" +
		"To get the source of one with a path as its name: go mod download NAME@VERSION\n\n")
	owners := map[string][]string{}
	var order []string
	for _, c := range linked {
		fmt.Fprintf(&list, "%s %s (%s)\n", c.name, c.version, strings.Join(c.licenses, ", "))
		for _, t := range c.texts {
			if owners[t.content] == nil {
				order = append(order, t.content)
			}
			owners[t.content] = append(owners[t.content], c.name+": "+t.name)
		}
	}
	for _, content := range order {
		fmt.Fprintf(&texts, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(owners[content], "\n"), strings.TrimSpace(content))
	}
	return list.String() + texts.String()
}
