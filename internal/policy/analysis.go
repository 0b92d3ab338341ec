package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// templateError is an error in a template.
type templateError struct {
	// at is a byte offset in the source.
	at     int
	reason string
}

// analysis checks a parsed template and rewrites it for two guarantees. Reading a missing field is an error with the
// name of the field, except under default. Templates print only texts, numbers and booleans.
//
//	{{.trigger.a.b}}               {{(bursar0 .) | bursar1}}
//	{{default "x" .trigger.a.b}}   {{default "x" (bursar0 .) | bursar1}}
//	{{$x.a}}                       {{(bursar0 $x) | bursar1}}
//
// Each inserted function serves one place. Here bursar0 reads the path trigger.a.b (or a) below its argument, strictly
// or for default, and bursar1 accepts only printable values. Templates cannot name them, as the analysis knows every
// function that a template may call.
//
// The arguments of default are optional: chains of fields, index and its container, and both inside of parentheses. The
// arguments of other functions are not.
type analysis struct {
	errors []templateError
	// added are the inserted functions, by name.
	added template.FuncMap
	// reads has the names of the variables in the template, with the byte offset of the first read in the source.
	reads map[string]int
	// chains are the chains of fields that begin at the object.
	chains []chain
}

// chain is a chain of fields below a variable, such as trigger and spec, and its byte offset in the source.
type chain struct {
	at   int
	path []string
}

// analyse checks and rewrites a template. The errors in the result are in the order of the source. trees are those of
// all templates in the source.
func analyse(tree *parse.Tree, trees map[string]*parse.Tree) *analysis {
	a := &analysis{added: template.FuncMap{}, reads: map[string]int{}}
	for _, other := range trees {
		if other != tree {
			a.addError(other.Root.Pos, "define and block are not allowed: a template cannot call another")
		}
	}
	a.list(tree.Root, true)
	slices.SortStableFunc(a.errors, func(x, y templateError) int { return cmp.Compare(x.at, y.at) })
	return a
}

func (a *analysis) addError(at parse.Pos, format string, args ...any) {
	a.errors = append(a.errors, templateError{at: int(at), reason: fmt.Sprintf(format, args...)})
}

// list walks the body of a template or branch. Within with, dot is a value of the object and not the variables (atRoot
// false).
func (a *analysis) list(list *parse.ListNode, atRoot bool) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.TextNode, *parse.CommentNode:
		case *parse.ActionNode:
			a.action(n, atRoot)
		case *parse.IfNode:
			a.pipe(n.Pipe, atRoot, false)
			a.list(n.List, atRoot)
			a.list(n.ElseList, atRoot)
		case *parse.WithNode:
			a.pipe(n.Pipe, atRoot, false)
			a.list(n.List, false)
			a.list(n.ElseList, atRoot)
		case *parse.RangeNode:
			a.addError(n.Pos, "range is not allowed: templates have no loops")
		case *parse.TemplateNode:
			a.addError(n.Pos, "template and block are not allowed: a template cannot call another")
		default:
			a.addError(node.Position(), "%s is not allowed", node)
		}
	}
}

// action walks {{pipeline}}, and inserts the check of its printed value.
func (a *analysis) action(n *parse.ActionNode, atRoot bool) {
	source := n.Pipe.String()
	a.pipe(n.Pipe, atRoot, false)
	if len(n.Pipe.Decl) > 0 {
		return
	}
	n.Pipe.Cmds = append(n.Pipe.Cmds, a.add(n.Pos, printer(source)))
}

// pipe walks a pipeline; optional means that its value is an argument of default.
func (a *analysis) pipe(pipe *parse.PipeNode, atRoot, optional bool) {
	for i, command := range pipe.Cmds {
		isOptional := optional
		if i+1 < len(pipe.Cmds) {
			isOptional = functionOf(pipe.Cmds[i+1]) == "default"
		}
		a.command(command, i > 0, atRoot, isOptional)
	}
}

// functionOf returns the name of the function in a command, or "".
func functionOf(command *parse.CommandNode) string {
	if name, ok := command.Args[0].(*parse.IdentifierNode); ok {
		return name.Ident
	}
	return ""
}

// command walks one command of a pipeline; piped means that it gets the value of another command.
func (a *analysis) command(command *parse.CommandNode, piped, atRoot, optional bool) {
	if name, ok := command.Args[0].(*parse.IdentifierNode); ok {
		given := len(command.Args) - 1
		if piped {
			given++
		}
		a.call(name, given)
		indexed := name.Ident == "index" && optional
		if indexed {
			command.Args[0] = identifier(name.Pos, optionalIndexFunction)
		}
		for i := 1; i < len(command.Args); i++ {
			isOptional := name.Ident == "default" || indexed && i == 1
			command.Args[i] = a.argument(command.Args[i], atRoot, isOptional)
		}
		return
	}
	if piped || len(command.Args) > 1 {
		a.addError(start(command.Args[0]), "%s is not a function and takes no arguments", command.Args[0])
		return
	}
	command.Args[0] = a.argument(command.Args[0], atRoot, optional)
}

// call checks the number of arguments of a function call.
func (a *analysis) call(name *parse.IdentifierNode, given int) {
	f, known := functions[name.Ident]
	switch {
	case !known && isVariable(name.Ident):
		a.addError(name.Pos, "there is no function %s; did you mean .%s?", name.Ident, name.Ident)
	case !known:
		a.addError(name.Pos, "there is no function %s", name.Ident)
	case given < f.argsMin && f.argsMin == f.argsMax, f.argsMax > 0 && given > f.argsMax:
		a.addError(name.Pos, "%s takes %s, not %d", name.Ident, argumentCount(f.argsMin, f.argsMax), given)
	case given < f.argsMin:
		a.addError(name.Pos, "%s takes at least %s, not %d", name.Ident, argumentCount(f.argsMin, f.argsMin), given)
	}
}

func isVariable(name string) bool {
	_, is := variableFields[name]
	return is
}

func argumentCount(fewest, most int) string {
	switch {
	case fewest < most:
		return fmt.Sprintf("%d to %d arguments", fewest, most)
	case most == 1:
		return "1 argument"
	default:
		return fmt.Sprintf("%d arguments", most)
	}
}

// argument walks an operand and returns its replacement.
func (a *analysis) argument(node parse.Node, atRoot, optional bool) parse.Node {
	switch n := node.(type) {
	case *parse.FieldNode:
		if atRoot {
			a.chain(start(n), n.Ident)
			return a.lookup(n, dot(start(n)), "", n.Ident, optional)
		}
		return a.lookup(n, dot(start(n)), ".", n.Ident, optional)
	case *parse.DotNode:
		if atRoot {
			a.readAll(n.Pos)
		}
	case *parse.VariableNode:
		if len(n.Ident) == 1 {
			if n.Ident[0] == "$" {
				a.readAll(n.Pos)
			}
			return n
		}
		if n.Ident[0] == "$" {
			a.chain(start(n), n.Ident[1:])
		}
		return a.lookup(n, variable(start(n), n.Ident[0]), n.Ident[0], n.Ident[1:], optional)
	case *parse.ChainNode:
		base := "(" + n.Node.String() + ")"
		return a.lookup(n, a.argument(n.Node, atRoot, optional), base, n.Field, optional)
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			a.addError(n.Pos, "a variable cannot be set within parentheses")
		}
		a.pipe(n, atRoot, optional)
	case *parse.IdentifierNode:
		a.call(n, 0)
	case *parse.NilNode:
		a.addError(n.Pos, "nil is not allowed")
	}
	return node
}

// readAll records that the template has access to all variables.
func (a *analysis) readAll(at parse.Pos) {
	for name := range variableFields {
		a.read(name, at)
	}
}

// read records that the template reads a variable. The walk follows the source, so the first record is the first place.
func (a *analysis) read(name string, at parse.Pos) {
	if _, known := a.reads[name]; !known {
		a.reads[name] = int(at)
	}
}

// chain checks a chain of fields that begins at the variables.
func (a *analysis) chain(at parse.Pos, path []string) {
	a.read(path[0], at)
	if path[0] == varTrigger || path[0] == varObject {
		a.chains = append(a.chains, chain{int(at), path})
	}
	fields, known := variableFields[path[0]]
	switch {
	case !known:
		a.addError(at, "there is no .%s; templates see .trigger, .object, .namespaceObject, .user and .requestInfo", path[0])
	case fields != nil && len(path) > 1 && !slices.Contains(fields, path[1]):
		a.addError(at, "there is no .%s.%s; .%s has %s", path[0], path[1], path[0], strings.Join(fields, ", "))
	}
}

// start returns the beginning of an operand in the source. The parser gives chains of several fields the position of
// the second one.
func start(node parse.Node) parse.Pos {
	switch n := node.(type) {
	case *parse.FieldNode:
		if len(n.Ident) > 1 {
			return n.Pos - parse.Pos(len(".")+len(n.Ident[0]))
		}
	case *parse.VariableNode:
		if len(n.Ident) > 1 {
			return n.Pos - parse.Pos(len(n.Ident[0]))
		}
	case *parse.ChainNode:
		return start(n.Node)
	}
	return node.Position()
}

// lookup makes the operand for the field at path below base. baseText is the text of base in the template.
func (a *analysis) lookup(node, base parse.Node, baseText string, path []string, optional bool) parse.Node {
	at := start(node)
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: at, Cmds: []*parse.CommandNode{
		a.add(at, reader(baseText, path, optional), base),
	}}
}

// add makes the command with a call of an inserted function.
func (a *analysis) add(at parse.Pos, function any, arguments ...parse.Node) *parse.CommandNode {
	name := fmt.Sprintf("bursar%d", len(a.added))
	a.added[name] = function
	return &parse.CommandNode{
		NodeType: parse.NodeCommand, Pos: at,
		Args: append([]parse.Node{identifier(at, name)}, arguments...),
	}
}

func identifier(at parse.Pos, name string) *parse.IdentifierNode {
	return parse.NewIdentifier(name).SetPos(at)
}

func dot(at parse.Pos) *parse.DotNode {
	return &parse.DotNode{NodeType: parse.NodeDot, Pos: at}
}

func variable(at parse.Pos, name string) *parse.VariableNode {
	return &parse.VariableNode{NodeType: parse.NodeVariable, Pos: at, Ident: []string{name}}
}
