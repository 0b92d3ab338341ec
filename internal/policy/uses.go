package policy

import "fmt"

// place is a position in the source of an expression or template: a line and a column, both counted from 1. Columns
// count characters in expressions and bytes in templates.
type place struct{ line, column int }

func (p place) String() string { return fmt.Sprintf("%d:%d", p.line, p.column) }

func (p place) precedes(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// uses are the variables that an expression or template reads, by name, with the place of the first read.
type uses map[string]place

// note records the read of a variable at a place.
func (u uses) note(name string, at place) {
	if first, known := u[name]; !known || at.precedes(first) {
		u[name] = at
	}
}

// has reports whether one of the variables is read.
func (u uses) has(names ...string) bool {
	for _, name := range names {
		if _, ok := u[name]; ok {
			return true
		}
	}
	return false
}
