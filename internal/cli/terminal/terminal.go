// Package terminal prints for people. On a terminal, tables fit its width and have colours and bars, and a line reports
// long tasks. Elsewhere the text is plain, for scripts. Only commands import it.
package terminal

import (
	"cmp"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/bursar/bursar/internal/claims/message"
)

// Style is how to print to a writer. The zero value is plain text of any width.
type Style struct {
	// Width is the number of columns, or 0 where there is no terminal.
	Width int
	// HasColor allows colours.
	HasColor bool
	// HasBars allows bars beside percentages.
	HasBars bool
	// IsASCII forbids all other characters.
	IsASCII bool
}

// Of returns the style of a writer. NO_COLOR and TERM=dumb leave colours out, and the latter bars, too.
func Of(out io.Writer) Style {
	s := Style{IsASCII: !IsUTF8()}
	file, isFile := out.(*os.File)
	if !isFile {
		return s
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		return s
	}
	isDumb := os.Getenv("TERM") == "dumb"
	s.Width, s.HasBars = width, !isDumb
	s.HasColor = !isDumb && os.Getenv("NO_COLOR") == ""
	return s
}

// IsTerminal reports whether the style belongs to a terminal.
func (s Style) IsTerminal() bool { return s.Width > 0 }

// IsUTF8 reports whether the locale is UTF-8.
func IsUTF8() bool {
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// Page collects a text for people. Tables on it fit the width of the terminal.
type Page struct {
	style Style
	text  strings.Builder
}

// NewPage returns a page in the style of a writer.
func NewPage(out io.Writer) *Page { return &Page{style: Of(out)} }

// Style returns the style of the page.
func (p *Page) Style() Style { return p.style }

// Write implements [io.Writer]. It cleans the text, see [message.Clean]: only tables have colours.
func (p *Page) Write(text []byte) (int, error) {
	p.text.WriteString(message.Clean(string(text)))
	return len(text), nil
}

// String returns the text of the page.
func (p *Page) String() string { return p.text.String() }
