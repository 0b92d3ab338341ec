package tidy

import (
	"go/ast"
	"go/token"
	"testing"
)

// The limits of what a person reads at once.
const (
	functionLinesMax    = 60
	functionBranchesMax = 15
	fileLinesMax        = 400
)

// Functions fit on a screen.
func TestFunctionsAreShort(t *testing.T) {
	split := newExceptions(t, longFunctions)
	for _, f := range sources(t, "api", "cmd", "hack", "internal", "sdk") {
		for _, declaration := range f.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			lines, branches := f.linesOf(function), branchesOf(function.Body)
			if (lines > functionLinesMax || branches > functionBranchesMax) && !split.have(f.path+" "+nameOf(function)) {
				t.Errorf("%s: %s has %d lines and %d branches: split it, at most %d lines and %d branches are read at once",
					f.at(function), nameOf(function), lines, branches, functionLinesMax, functionBranchesMax)
			}
		}
	}
}

// nameOf is the name of a function, with the type that it is a method of.
func nameOf(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	for {
		switch of := receiver.(type) {
		case *ast.StarExpr:
			receiver = of.X
		case *ast.IndexExpr:
			receiver = of.X
		case *ast.IndexListExpr:
			receiver = of.X
		case *ast.Ident:
			return of.Name + "." + function.Name.Name
		default:
			return function.Name.Name
		}
	}
}

// A file is one idea.
func TestFilesAreShort(t *testing.T) {
	split := newExceptions(t, longFiles)
	for _, f := range sources(t, "api", "cmd", "hack", "internal", "sdk") {
		if f.lines > fileLinesMax && !split.have(f.path) {
			t.Errorf("%s has %d lines: split it by ideas, a file has at most %d lines", f.path, f.lines, fileLinesMax)
		}
	}
}

// branchesOf counts the ways through a function: one, and one more for each condition.
func branchesOf(body *ast.BlockStmt) int {
	branches := 1
	ast.Inspect(body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			branches++
		case *ast.CaseClause:
			if node.List != nil {
				branches++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				branches++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				branches++
			}
		}
		return true
	})
	return branches
}
