package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// table is a table of Markdown. The cells are Markdown, too.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// String returns the table with an empty line after it.
func (t *table) String() string {
	var page strings.Builder
	fmt.Fprintf(&page, "| %s |\n|%s\n", strings.Join(t.header, " | "), strings.Repeat(" --- |", len(t.header)))
	for _, row := range t.rows {
		fmt.Fprintf(&page, "| %s |\n", strings.Join(row, " | "))
	}
	return page.String() + "\n"
}

// special are the characters with a meaning in Markdown that occur in prose.
var special = strings.NewReplacer(`*`, `\*`, `_`, `\_`, `<`, `&lt;`, `|`, `\|`, `[`, `\[`)

// prose writes a text as one line of Markdown that renders it unchanged. The parts between backticks stay as they are.
func prose(text string) string {
	parts := strings.Split(strings.Join(strings.Fields(text), " "), "`")
	for i := range parts {
		if i%2 == 0 {
			parts[i] = special.Replace(parts[i])
		} else {
			parts[i] = strings.ReplaceAll(parts[i], "|", `\|`)
		}
	}
	return strings.Join(parts, "`")
}

// code writes a text as code in a table, or nothing for no text.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}

// sentence begins a text with a capital letter and ends it with a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	first, size := utf8.DecodeRuneInString(text)
	if text == "" || !unicode.IsLetter(first) {
		return text
	}
	if word, _, _ := strings.Cut(text, " "); !strings.ContainsAny(word, "._/=,") && strings.ToLower(word) == word {
		text = string(unicode.ToUpper(first)) + text[size:]
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// stated is the default that a comment states.
var stated = regexp.MustCompile(`(?s)(?:^|\s)Default: (.*?)\.(?:\s|$)`)

// splitDefault returns a comment without the default that it states, and the default.
func splitDefault(comment string) (meaning, value string) {
	found := stated.FindStringSubmatchIndex(comment)
	if found == nil {
		return comment, ""
	}
	return strings.TrimSpace(comment[:found[0]] + " " + comment[found[1]:]), strings.Join(strings.Fields(comment[found[2]:found[3]]), " ")
}
