// Package message writes denials, conditions and summaries for people: the requested, used and allowed amounts in
// display units, the consumer, and the next step. It is pure, and imports only packages catalog, ledger and naming.
//
// The webhooks, packages claims and engine, the controllers, the console and the command line import it.
package message

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"unicode"

	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

// fractionDigitsMax bounds the digits after the decimal point of a displayed amount. The text marks a cut of further
// digits, so a displayed number is never silently wrong.
const fractionDigitsMax = 6

// shortDigitsMax bounds the digits after the decimal point of an amount below one display unit. Beyond it, the text
// has a smaller unit.
const shortDigitsMax = 3

// number writes an amount in display units, exactly if it fits: 1500 millicores as "1.5".
func number(amount ledger.Amount, factor int64) string {
	text, _ := decimal(amount, factor)
	return text
}

// decimal writes an amount in units of factor base units, and returns the number of digits after the point. Cut digits
// are marked.
func decimal(amount ledger.Amount, factor int64) (text string, digits int) {
	if factor <= 1 {
		return big.NewInt(int64(amount)).String(), 0
	}
	value := big.NewRat(int64(amount), factor)
	text = strings.TrimRight(value.FloatString(fractionDigitsMax), "0")
	text = strings.TrimSuffix(text, ".")
	if _, fraction, found := strings.Cut(text, "."); found {
		digits = len(fraction)
	}
	if shown, ok := new(big.Rat).SetString(text); !ok || shown.Cmp(value) != 0 {
		return "~" + text, fractionDigitsMax
	}
	return text, digits
}

// Amount writes an amount with a readable unit: "1 project", "2 projects", "1.5 GiB", and "2 KiB" for a resource type
// with the display unit GiB.
func Amount(amount ledger.Amount, r *catalog.Registration) string {
	name, factor := unitFor(amount, r)
	text := number(amount, factor)
	return text + " " + unit(text, name)
}

// AmountUp is [Amount], but rounds up where it cuts digits: a limit of the displayed amount is enough.
func AmountUp(amount ledger.Amount, r *catalog.Registration) string {
	name, factor := unitFor(amount, r)
	text, _ := decimal(amount, factor)
	if !strings.HasPrefix(text, "~") {
		return text + " " + unit(text, name)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(fractionDigitsMax), nil)
	parts, of := new(big.Int).Mul(big.NewInt(int64(amount)), scale), big.NewInt(factor)
	parts.Sub(parts.Add(parts, of), big.NewInt(1)).Div(parts, of)
	text = "~" + strings.TrimSuffix(strings.TrimRight(new(big.Rat).SetFrac(parts, scale).FloatString(fractionDigitsMax), "0"), ".")
	return text + " " + unit(text, name)
}

// AmountOf is [Amount] for a resource type, registered or not.
func AmountOf(c *catalog.Catalog, resourceType string, amount ledger.Amount) string {
	return Amount(amount, registrationOf(c, resourceType))
}

// unitFor returns the unit for an amount, with its number of base units: the display unit unless the amount is a small
// part of one.
func unitFor(amount ledger.Amount, r *catalog.Registration) (name string, factor int64) {
	_, digits := decimal(amount, r.Factor)
	if amount <= 0 || int64(amount) >= r.Factor || digits <= shortDigitsMax {
		return r.DisplayUnit, r.Factor
	}
	base := r.BaseUnit
	for _, family := range byteUnits {
		if size, known := family[r.DisplayUnit]; !known || size != r.Factor {
			continue
		}
		base = cmp.Or(base, "byte")
		name, factor = largest(family, int64(amount))
		if name != "" {
			return name, factor
		}
	}
	if base == "" {
		return r.DisplayUnit, r.Factor
	}
	return base, 1
}

// largest returns the largest unit up to an amount, or nothing.
func largest(family map[string]int64, amount int64) (name string, size int64) {
	for each, bytes := range family {
		if bytes <= amount && bytes > size {
			name, size = each, bytes
		}
	}
	return name, size
}

// byteUnits are the units of bytes, with their sizes.
var byteUnits = []map[string]int64{
	{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50, "EiB": 1 << 60},
	{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60},
	{"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "EB": 1e18},
}

// unit returns the plural of a unit if it is a lower-case word. Symbols such as GiB, TB or vCPU have no plural. A
// registration may have the plural of an abbreviation as its unit: one of GPUs is a GPU.
func unit(number, name string) string {
	if stem, isPlural := strings.CutSuffix(name, "s"); isPlural && number == "1" && len(stem) > 1 && unicode.IsUpper(rune(stem[len(stem)-1])) {
		return stem
	}
	isWord := len(name) > 2 && strings.IndexFunc(name, func(r rune) bool { return r != ' ' && !unicode.IsLower(r) }) < 0
	if number == "1" || !isWord {
		return name
	}
	return plural(name)
}

// Singular returns the singular of a unit in an amount such as "2 projects".
func Singular(name string) string {
	for _, ending := range [][2]string{{"ies", "y"}, {"es", ""}, {"s", ""}} {
		stem, ok := strings.CutSuffix(name, ending[0])
		if singular := stem + ending[1]; ok && stem != "" && unit("2", singular) == name {
			return singular
		}
	}
	return name
}

// sibilants are the endings that take -es.
var sibilants = []string{"ss", "x", "z", "ch", "sh"}

// plural returns the plural of an English word of at least two letters. A word with a single s at its end counts as a
// plural already: gpus or seats are more likely to be counted than gases.
//
// The library github.com/gobuffalo/flect v1.0.3, used by controller-gen, does not suit quota: it turns gpus into
// gpuses, leaves cpus as the singular of cpus, and derives drife from drives.
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
