package main

import (
	"regexp"
	"strings"
	"unicode"
)

// relatives are the words at the beginning of a clause within a clause.
var relatives = map[string]bool{
	"which": true, "that": true, "what": true, "who": true, "whom": true, "whose": true,
	"whoever": true, "whatever": true, "whichever": true,
}

// irregular are the participles that do not end in -ed, among the verbs of technical texts.
const irregular = `begun|born|bound|broken|brought|built|caught|chosen|cut|dealt|done|drawn|driven|eaten|fallen|fed|felt|found|forgotten|` +
	`frozen|given|gone|grown|heard|held|hidden|hit|hurt|kept|known|laid|led|left|lent|let|lost|made|meant|met|overridden|paid|put|read|rewritten|` +
	`run|said|seen|sent|set|shown|shut|sold|spent|split|spread|sworn|taken|taught|thought|thrown|told|torn|understood|unset|won|written`

// passiveVoice finds a form of "be" with a participle, with up to two adverbs or negations between them.
var passiveVoice = regexp.MustCompile(`(?i)\b(am|is|are|was|were|be|been|being|isn't|aren't|wasn't|weren't)(\s+(not|never|also|only|then|still|now|thus|just|always|all|both|each|once|again|already|\w+ly)){0,2}\s+(\w{2,}ed|` + irregular + `)\b`)

// sentenceEnd is where a sentence ends: a stop before a space.
var sentenceEnd = regexp.MustCompile(`[.!?]["')\]]*\s+`)

// isWord reports whether a character belongs to a word.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("'’-_", r)
}

// abbreviations end in a stop that ends no sentence.
var abbreviations = strings.NewReplacer("e.g.", "eg", "i.e.", "ie", "etc.", "etc", "vs.", "vs", "cf.", "cf")

// sentences splits a paragraph.
func sentences(paragraph string) []string {
	text := abbreviations.Replace(paragraph)
	var all []string
	for {
		end := sentenceEnd.FindStringIndex(text)
		if end == nil {
			return append(all, text)
		}
		all, text = append(all, text[:end[1]]), text[end[1]:]
	}
}
