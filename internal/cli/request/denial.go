package request

import (
	"regexp"
	"slices"
	"strings"
)

// advised matches the command in a denial.
var advised = regexp.MustCompile(`bursar request ([^"';]+?) --reason`)

// ParseDenial returns the request advised by the text of a denial, without a reason.
func ParseDenial(text string) (Options, error) {
	var commands []string
	for _, match := range advised.FindAllStringSubmatch(strings.Join(strings.Fields(text), " "), -1) {
		if !slices.Contains(commands, match[1]) {
			commands = append(commands, match[1])
		}
	}
	switch len(commands) {
	case 0:
		return Options{}, invalid("", "no denial in %q advises a request: bursar why - explains others", excerpt(text))
	case 1:
		return parseCommand(strings.Fields(commands[0]))
	default:
		return Options{}, invalid("", "the text names several requests: run each by itself: bursar request %s", strings.Join(commands, "; bursar request "))
	}
}

// excerpt returns the beginning of a text.
func excerpt(text string) string {
	const charactersMax = 200
	runes := []rune(strings.TrimSpace(text))
	if len(runes) > charactersMax {
		return string(runes[:charactersMax]) + "..."
	}
	return string(runes)
}

func parseCommand(words []string) (Options, error) {
	var o Options
	var amounts, dimensions []string
	for i := 0; i < len(words); i++ {
		word, next := words[i], ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch word {
		case "--for":
			o.For = next
		case "-n":
			o.Namespace = next
		case "--dimension":
			dimensions = append(dimensions, next)
		default:
			amounts = append(amounts, word)
			continue
		}
		i++
	}
	var err error
	if o.Amounts, err = ParseAmounts(amounts, 1); err != nil {
		return o, err
	}
	o.Dimensions, err = ParseDimensions(dimensions)
	return o, err
}
