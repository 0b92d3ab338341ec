package main

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// searchIndex is the file with all records. It is a script: a browser reads no data from a folder.
const searchIndex = "search-index.js"

// record is what the search finds: the part of a page below one heading.
type record struct {
	ID      int    `json:"id"`
	URL     string `json:"url"`
	Page    string `json:"page"`
	Heading string `json:"heading"`
	Text    string `json:"text"`
	// Keywords are more words to find it by: those in a comment, such as <!-- search: forbidden, 403 -->.
	Keywords string `json:"keywords,omitempty"`
}

// keywords matches a comment with words for the search.
var keywords = regexp.MustCompile(`^<!-- search: (.*) -->\s*$`)

// records returns those of the page, in order. Each page has one for its title, if only with the title.
func (p *page) records() []record {
	current := record{URL: p.path, Page: p.title}
	var list []record
	var words strings.Builder
	flush := func() {
		current.Text = strings.Join(strings.Fields(words.String()), " ")
		list = append(list, current)
		words.Reset()
	}
	titled := false
	for node := p.document.FirstChild(); node != nil; node = node.NextSibling() {
		title, ok := node.(*ast.Heading)
		found := keywords.FindSubmatch(p.html(node))
		switch {
		case found != nil:
			current.Keywords = string(found[1])
		case !ok:
			words.WriteString(p.text(node) + " ")
		case !titled:
			titled = true
		default:
			flush()
			id, _ := title.AttributeString("id")
			current = record{URL: p.path + "#" + string(id.([]byte)), Page: p.title, Heading: p.text(title)}
		}
	}
	flush()
	return list
}

// html returns the lines of a block of HTML, or none.
func (p *page) html(node ast.Node) []byte {
	if block, ok := node.(*ast.HTMLBlock); ok {
		return block.Lines().Value(p.content)
	}
	return nil
}

// searchScript returns the file of all records, which get their numbers.
func searchScript(records []record) ([]byte, error) {
	for i := range records {
		records[i].ID = i
	}
	list, err := json.Marshal(records)
	if err != nil {
		return nil, err
	}
	return append(append([]byte("window.searchIndex = "), list...), ";\n"...), nil
}
