package main

import (
	"encoding/json"
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
}

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
		switch {
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
