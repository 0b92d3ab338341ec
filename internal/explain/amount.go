// Package explain turns decisions into the sentences that people read: what was asked, of
// whom, how much is used and allowed, in display units, and what to do next.
package explain

import (
	"math/big"
	"slices"
	"strings"
	"unicode"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

// fractionDigitsMax is how many digits after the decimal point a displayed amount may have.
// More are cut and marked, so that a displayed number is never silently wrong.
const fractionDigitsMax = 6

// number writes an amount in display units, exactly where it fits: 1500 millicores as "1.5".
func number(amount ledger.Amount, factor int64) string {
	if factor <= 1 {
		return big.NewInt(int64(amount)).String()
	}
	value := big.NewRat(int64(amount), factor)
	text := strings.TrimRight(value.FloatString(fractionDigitsMax), "0")
	text = strings.TrimSuffix(text, ".")
	if shown, ok := new(big.Rat).SetString(text); !ok || shown.Cmp(value) != 0 {
		return "~" + text
	}
	return text
}

// Amount writes an amount with its display unit: "1 project", "2 projects", "1.5 GiB".
func Amount(amount ledger.Amount, r *catalog.Registration) string {
	text := number(amount, r.Factor)
	return text + " " + unit(text, r.DisplayUnit)
}

// unit puts a unit into the plural where its form allows it. Units that are words in lower
// case are; symbols such as GiB, TB or vCPU are not.
func unit(number, name string) string {
	isWord := len(name) > 2 && strings.IndexFunc(name, func(r rune) bool { return r != ' ' && !unicode.IsLower(r) }) < 0
	if number == "1" || !isWord {
		return name
	}
	return plural(name)
}

// sibilants are the endings that take -es.
var sibilants = []string{"ss", "x", "z", "ch", "sh"}

// plural puts an English word of at least two letters into the plural. A word with a single s at
// its end is taken for a plural already: gpus or seats are more likely to be counted than gases.
func plural(word string) string {
	isEnding := func(ending string) bool { return strings.HasSuffix(word, ending) }
	switch {
	case slices.ContainsFunc(sibilants, isEnding):
		return word + "es"
	case isEnding("s"):
		return word
	case isEnding("y") && !strings.ContainsAny(word[len(word)-2:len(word)-1], "aeiou"):
		return strings.TrimSuffix(word, "y") + "ies"
	}
	return word + "s"
}
