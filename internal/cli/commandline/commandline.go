// Package commandline writes commands for people to paste into a shell. The console and commands import it.
package commandline

import (
	"regexp"
	"strings"
)

// bare matches words without a special meaning for a shell.
var bare = regexp.MustCompile(`^[A-Za-z0-9._/:@%+=,-]+$`)

// Join returns the command line of words. It quotes those that a shell would change, because the words of a link or of
// a flag may be any.
func Join(words ...string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		if !bare.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted = append(quoted, word)
	}
	return strings.Join(quoted, " ")
}
