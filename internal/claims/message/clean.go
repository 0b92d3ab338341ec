package message

import (
	"strings"
	"unicode"
)

// Clean returns a text as people may see it on a terminal or a page. Users write reasons, descriptions and names, and
// some characters would make the text look like another one. Control characters move the cursor, overrides of direction
// (U+202E) turn a text round, and zero-width characters hide a difference. Clean keeps line ends and tabs.
func Clean(text string) string { return strings.Map(cleaned, text) }

// cleaned returns a character, or -1 if it would change what people see of others.
func cleaned(r rune) rune {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return r
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r): // these have a shape of their own
		return r
	case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point):
		return -1
	default:
		return r
	}
}
