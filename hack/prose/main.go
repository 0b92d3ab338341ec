// Prose measures the language of pages, comments and help texts, and fails if they exceed the bounds of
// docs/contributing/language.md.
//
//	prose [-worst N] [FOLDER]
//
// It prints a row for each area with its relative words per 100 words, the share of its sentences in the passive voice,
// and the number of sentences and lines beyond the bounds. Each of these sentences and lines follows with its place.
// With -worst, the worst N files of each area follow.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// sentenceMin is the least number of words of a sentence with a voice. Shorter texts, such as the cell of a table, have
// none.
const sentenceMin = 5

// The bounds of each area.
const (
	relativeMax = 2.0 // per 100 words
	passiveMax  = 25  // percent of the sentences
	sentenceMax = 35  // words
	lineMax     = 120 // characters
)

func main() {
	worst := flag.Int("worst", 0, "how many of the worst files of each area to list")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	ok, err := run(os.Stdout, root, *worst)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run measures all areas below a folder, and reports whether they are within the bounds.
func run(out io.Writer, root string, worst int) (ok bool, err error) {
	files, err := read(root)
	if err != nil {
		return false, err
	}
	ok = true
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "AREA\tWORDS\tRELATIVE/100\tPASSIVE %\tLONG SENTENCES\tLONG LINES")
	for _, area := range areas {
		var sum measure
		for _, f := range files {
			if f.area == area {
				sum.add(f.measure)
			}
		}
		ok = ok && sum.within()
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%.0f\t%d\t%d\n", area, sum.words, sum.relative(), sum.passive(), len(sum.longSentences), len(sum.longLines))
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	for _, f := range files {
		for _, place := range slices.Concat(f.longSentences, f.longLines) {
			fmt.Fprintf(out, "%s: %s\n", f.path, place)
		}
	}
	list(out, files, worst)
	return ok, nil
}

// list prints the files with the most relative words and passive sentences above the bounds.
func list(out io.Writer, files []file, count int) {
	for _, area := range areas {
		some := slices.DeleteFunc(slices.Clone(files), func(f file) bool { return f.area != area })
		slices.SortFunc(some, func(a, b file) int { return cmp.Compare(b.excess(), a.excess()) })
		for _, f := range some[:min(count, len(some))] {
			fmt.Fprintf(out, "%s: %.1f relative words per 100, %.0f %% passive, of %d words\n", f.path, f.relative(), f.passive(), f.words)
		}
	}
}

// measure has the counts of some text.
type measure struct {
	words, relatives, sentences, passives int
	longSentences, longLines              []string
}

func (m *measure) add(other measure) {
	m.words += other.words
	m.relatives += other.relatives
	m.sentences += other.sentences
	m.passives += other.passives
	m.longSentences = append(m.longSentences, other.longSentences...)
	m.longLines = append(m.longLines, other.longLines...)
}

// relative returns the relative words per 100 words.
func (m *measure) relative() float64 { return 100 * float64(m.relatives) / float64(max(1, m.words)) }

// passive returns the share of passive sentences in percent.
func (m *measure) passive() float64 { return 100 * float64(m.passives) / float64(max(1, m.sentences)) }

// excess returns how many relative words and passive sentences there are too many.
func (m *measure) excess() float64 {
	return float64(m.relatives) - relativeMax*float64(m.words)/100 + float64(m.passives) - passiveMax*float64(m.sentences)/100
}

func (m *measure) within() bool {
	return m.relative() <= relativeMax && m.passive() <= passiveMax && len(m.longSentences) == 0 && len(m.longLines) == 0
}

// sentence counts one sentence.
func (m *measure) sentence(text string) {
	words := strings.FieldsFunc(text, func(r rune) bool { return !isWord(r) })
	if len(words) == 0 {
		return
	}
	m.words += len(words)
	if len(words) >= sentenceMin {
		m.sentences++
	}
	for _, word := range words {
		if relatives[strings.ToLower(word)] {
			m.relatives++
		}
	}
	if len(words) >= sentenceMin && passiveVoice.MatchString(text) {
		m.passives++
	}
	if len(words) > sentenceMax {
		m.longSentences = append(m.longSentences, fmt.Sprintf("a sentence of %d words: %s", len(words), strings.TrimSpace(text)))
	}
}
