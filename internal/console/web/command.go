package web

import (
	"regexp"
	"strings"
)

// bare matches words without a special meaning for a shell.
var bare = regexp.MustCompile(`^[A-Za-z0-9._/:@%+=,-]+$`)

// CommandLine returns a command line to paste into a shell. It quotes all other words, because a link to a page may
// have any words.
func CommandLine(words ...string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		if !bare.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted = append(quoted, word)
	}
	return strings.Join(quoted, " ")
}
