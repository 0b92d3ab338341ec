package main

import "strings"

// lineMax is the length of the longest line of prose.
const lineMax = 120

// paragraphs writes a text for terminals as Markdown. Paragraphs with an indented line stay as they are.
func paragraphs(text string) string {
	var page strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") {
			page.WriteString("```text\n" + withoutIndent(paragraph) + "\n```\n\n")
		} else {
			page.WriteString(wrap(prose(sentence(paragraph))) + "\n\n")
		}
	}
	return page.String()
}

// wrap breaks a text into lines.
func wrap(text string) string {
	var page strings.Builder
	length := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case length == 0:
		case length+1+len(word) > lineMax:
			page.WriteByte('\n')
			length = 0
		default:
			page.WriteByte(' ')
			length++
		}
		page.WriteString(word)
		length += len(word)
	}
	return page.String()
}

// withoutIndent takes two spaces from the beginning of each line, as examples of commands have them.
func withoutIndent(text string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimRight(text, "\n ")) {
		lines = append(lines, strings.TrimPrefix(strings.TrimRight(line, "\n"), "  "))
	}
	return strings.Join(lines, "\n")
}
