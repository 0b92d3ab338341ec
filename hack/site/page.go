package main

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// markdown is GitHub's. Pages are our own, so their HTML is as safe as their text.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()))

// page is a Markdown file of the repository.
type page struct {
	// source is the path in the repository, and path the one in the site: docs/README.md becomes docs/index.html.
	source, path string
	title        string
	// headings has those below the title.
	headings []heading
	// diagrams reports whether the page has any.
	diagrams bool

	content  []byte
	document ast.Node
}

// heading is one of a page, with its anchor on GitHub.
type heading struct {
	Level        int
	Text, Anchor string
}

// parse reads a page. The first heading is the title, and a page without one is an error.
func parse(source string, content []byte) (*page, error) {
	p := &page{source: source, content: content, document: markdown.Parser().Parse(text.NewReader(content))}
	p.path = strings.TrimSuffix(source, path.Ext(source)) + ".html"
	if path.Base(source) == "README.md" {
		p.path = path.Join(path.Dir(source), "index.html")
	}
	used := map[string]int{}
	err := ast.Walk(p.document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.FencedCodeBlock:
			p.diagrams = p.diagrams || string(node.Language(content)) == "mermaid"
		case *ast.Heading:
			found := heading{Level: node.Level, Text: p.text(node)}
			found.Anchor = anchor(found.Text, used)
			node.SetAttributeString("id", []byte(found.Anchor))
			if p.title == "" {
				p.title = found.Text
			} else {
				p.headings = append(p.headings, found)
			}
		}
		return ast.WalkContinue, nil
	})
	if err == nil && p.title == "" {
		err = fmt.Errorf("%s has no heading; begin it with a line like # Title", source)
	}
	return p, err
}

// notInAnchors matches the characters of a heading missing in its anchor.
var notInAnchors = regexp.MustCompile(`[^\p{L}\p{M}\p{N} _-]`)

// anchor returns the anchor of a heading as GitHub makes it. Repeated ones get a number.
func anchor(heading string, used map[string]int) string {
	made := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
	count := used[made]
	used[made]++
	if count == 0 {
		return made
	}
	return fmt.Sprintf("%s-%d", made, count)
}

// text returns the words of a part of the page, without markup.
func (p *page) text(node ast.Node) string {
	var words strings.Builder
	_ = ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // fails never
		switch node := node.(type) {
		case *ast.Text:
			if entering {
				words.Write(node.Segment.Value(p.content))
				if node.SoftLineBreak() || node.HardLineBreak() {
					words.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				words.Write(node.Value)
			}
		case *ast.AutoLink:
			if entering {
				words.Write(node.Label(p.content))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				words.Write(node.Lines().Value(p.content))
			}
		default:
			if !entering && node.Type() == ast.TypeBlock {
				words.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(words.String())
}

// target returns the target file of a link of the page, and the anchor in it. It is false for links out of the
// repository, and for invalid URLs.
func (p *page) target(destination string) (file, fragment string, ok bool) {
	link, err := url.Parse(destination)
	if err != nil || link.Scheme != "" || link.Host != "" || path.IsAbs(link.Path) {
		return "", "", false
	}
	if link.Path == "" {
		return p.source, link.Fragment, true
	}
	file = path.Join(path.Dir(p.source), link.Path)
	return file, link.Fragment, file != ".." && !strings.HasPrefix(file, "../")
}
