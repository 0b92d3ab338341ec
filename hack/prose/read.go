package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	markdown "github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// The areas with bounds.
const (
	docs = "docs"
	// comments are those of Go, YAML, shell and make.
	comments = "comments"
	// texts are the help of commands, flags, settings and metrics, as the generated pages have them.
	texts = "texts"
)

var areas = []string{docs, comments, texts}

// file has the measure of one file.
type file struct {
	path, area string
	measure
}

// notOurs are the files without prose of our own. Definitions have the comments of the API, which count there.
var notOurs = regexp.MustCompile(`/testdata/|^dist/|^bin/|node_modules/|(^|/)crds/.*[.]yaml$`)

// generated marks pages written by a command from the texts in the code. Their lines are not ours.
var generated = []byte("<!-- Generated ")

// read measures all pages and all comments below a folder.
func read(root string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if entry.IsDir() {
			if isOthers(entry.Name(), relative) {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil // a link to a file counts there
		}
		f := file{path: relative}
		switch {
		case notOurs.MatchString(relative):
			return nil
		case strings.HasSuffix(relative, ".md"):
			f.area = docs
			err = f.readPage(path)
		case strings.HasSuffix(relative, ".go") && !strings.HasPrefix(entry.Name(), "zz_generated"):
			f.area = comments
			err = f.readComments(path)
		default:
			if isScript, err := isScript(path); !isScript || err != nil {
				return err
			}
			f.area = comments
			err = f.readScript(path)
		}
		files = append(files, f)
		return err
	})
	return files, err
}

// isOthers reports whether a folder has nothing of ours: it is hidden, unless it is for CI, or holds results of builds.
func isOthers(name, path string) bool {
	isHidden := strings.HasPrefix(name, ".") && path != "." && name != ".ci" && name != ".github"
	return isHidden || path == "bin" || name == "node_modules"
}

// isScript reports whether a file has comments in the form of YAML and shell. The ones without an ending begin with #!.
func isScript(path string) (bool, error) {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".sh":
		return true, nil
	case "":
		content, err := os.ReadFile(path)
		return filepath.Base(path) == "Makefile" || bytes.HasPrefix(content, []byte("#!")), err
	}
	return false, nil
}

var pages = goldmark.New(goldmark.WithExtensions(extension.Table))

// readPage measures the paragraphs, list items and cells of a page of Markdown. Headings and code are not prose.
func (f *file) readPage(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	isGenerated := bytes.Contains(content, generated)
	if isGenerated {
		f.area = texts
	}
	prose := bytes.Clone(content)
	err = markdown.Walk(pages.Parser().Parse(text.NewReader(content)), func(node markdown.Node, entering bool) (markdown.WalkStatus, error) {
		switch node.(type) {
		case *markdown.FencedCodeBlock, *markdown.CodeBlock:
			for i := range node.Lines().Len() {
				blank(prose, node.Lines().At(i))
			}
			return markdown.WalkSkipChildren, nil
		case *markdown.Heading, *markdown.HTMLBlock:
			return markdown.WalkSkipChildren, nil
		case *markdown.Paragraph, *markdown.TextBlock, *tables.TableCell:
			if entering {
				var b strings.Builder
				inline(&b, node, content)
				f.paragraph(b.String())
			}
			return markdown.WalkSkipChildren, nil
		}
		return markdown.WalkContinue, nil
	})
	if !isGenerated {
		f.lines(prose)
	}
	return err
}

// hash matches the beginning of a comment in YAML or shell.
var hash = regexp.MustCompile(`^\s*# ?`)

// readScript measures the comments of a YAML file, a shell script or a Makefile. Those beside code are phrases of a few
// words.
func (f *file) readScript(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var paragraph []string
	for line := range strings.Lines(string(content) + "\n") {
		if strings.HasPrefix(line, "#!") {
			continue // it names the shell
		}
		mark := hash.FindString(line)
		text := strings.TrimSpace(line[len(mark):])
		if mark == "" || text == "" {
			f.paragraph(strings.Join(paragraph, " "))
			paragraph = nil
			continue
		}
		f.lines([]byte(strings.TrimSuffix(line, "\n")))
		paragraph = append(paragraph, text)
	}
	return nil
}

// blank removes a line of code, such as a command or an output: it is as long as it is.
func blank(page []byte, line text.Segment) {
	for i := line.Start; i < line.Stop; i++ {
		if page[i] != '\n' {
			page[i] = ' '
		}
	}
}

// inline writes the text of a block. Code and addresses are one word each.
func inline(b *strings.Builder, node markdown.Node, source []byte) {
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *markdown.Text:
			b.Write(child.Segment.Value(source))
			if child.SoftLineBreak() || child.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *markdown.CodeSpan, *markdown.AutoLink:
			b.WriteString("Code")
		case *markdown.Image, *markdown.RawHTML:
		default:
			inline(b, child, source)
		}
	}
}

// marker is a line for a generator, such as +kubebuilder:validation:MinLength=1.
var marker = regexp.MustCompile(`(?m)^\+.*$`)

// directive is a comment for a tool: it may not be wrapped.
var directive = regexp.MustCompile(`^//( ?\+|[a-z]+:|nolint)`)

// readComments measures the comments of a Go file.
func (f *file) readComments(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), path, content, parser.ParseComments)
	if err != nil {
		return err
	}
	if ast.IsGenerated(parsed) {
		return nil
	}
	var parsing comment.Parser
	for _, group := range parsed.Comments {
		for _, block := range parsing.Parse(marker.ReplaceAllString(group.Text(), "")).Content {
			f.block(block)
		}
		for _, line := range group.List {
			if !directive.MatchString(line.Text) {
				f.lines([]byte(line.Text))
			}
		}
	}
	return nil
}

func (f *file) block(block comment.Block) {
	switch block := block.(type) {
	case *comment.Paragraph:
		f.paragraph(plain(block.Text))
	case *comment.List:
		for _, item := range block.Items {
			for _, content := range item.Content {
				f.block(content)
			}
		}
	}
}

// plain returns the text of a comment.
func plain(parts []comment.Text) string {
	var b strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case comment.Plain:
			b.WriteString(string(part))
		case comment.Italic:
			b.WriteString(string(part))
		case *comment.Link:
			b.WriteString("Code")
		case *comment.DocLink:
			b.WriteString("Code")
		}
	}
	return b.String()
}

func (f *file) paragraph(text string) {
	for _, one := range sentences(text) {
		f.sentence(one)
	}
}

// lines notes the lines beyond the bound. A table's row and an address are indivisible.
func (f *file) lines(content []byte) {
	for _, line := range bytes.Split(content, []byte("\n")) {
		line = bytes.TrimRight(line, " ")
		if len([]rune(string(line))) > lineMax && !bytes.HasPrefix(line, []byte("|")) && !bytes.Contains(line, []byte("://")) {
			f.longLines = append(f.longLines, fmt.Sprintf("a line of %d characters: %s", len([]rune(string(line))), line))
		}
	}
}
