package policy

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is an object with a value of every kind.
func sample() Input {
	return Input{
		Object: map[string]any{
			"apiVersion": "apps/v1",
			"kind":       "Deployment",
			"metadata": map[string]any{
				"name":      "Web",
				"namespace": "shop",
				"labels":    map[string]any{"app.kubernetes.io/name": "web", "empty": ""},
			},
			"spec": map[string]any{
				"replicas": int64(3),
				"huge":     int64(9007199254740993),
				"whole":    3.0,
				"ratio":    0.25,
				"billion":  1e21,
				"paused":   false,
				"digits":   " 42 ",
				"nothing":  nil,
				"ports":    []any{"http", int64(443), map[string]any{"name": "grpc"}},
			},
		},
		User: UserInfo{
			Name: "jane", UID: "7", Groups: []string{"dev", "ops"}, Extra: map[string][]string{"team": {"a"}},
		},
		RequestInfo: RequestInfo{
			Verb: "create", APIGroup: "apps", APIVersion: "v1", Resource: "deployments",
			Namespace: "shop", Name: "Web",
		},
	}
}

// renderText compiles and executes a template and returns its text, or its errors.
func renderText(source string, in Input) (text string, reasons []string) {
	compiled, reasons := compileTemplate(source)
	if reasons != nil {
		return "", reasons
	}
	text, err := compiled.execute(context.Background(), in.variables(), nameBytesMax)
	if err != nil {
		return "", []string{err.Error()}
	}
	return text, nil
}

func TestTemplateText(t *testing.T) {
	for name, tc := range map[string]struct{ reason, source, want string }{
		"plain text":         {"a text without actions is itself", "fixed-}}", "fixed-}}"},
		"field":              {"the documented form", "{{.trigger.metadata.name}}-claim", "Web-claim"},
		"object":             {"object is trigger", "{{.object.metadata.name}}", "Web"},
		"dollar":             {"$ is the variables", "{{with .trigger.spec}}{{$.user.name}}{{end}}", "jane"},
		"user":               {"every field of user", "{{.user.name}} {{.user.uid}} {{index .user.groups 1}} {{index .user.extra.team 0}}", "jane 7 ops a"},
		"request":            {"every field of requestInfo", "{{with .requestInfo}}{{.verb}} {{.apiGroup}}/{{.apiVersion}} {{.resource}}{{.subresource}} {{.namespace}}/{{.name}}{{end}}", "create apps/v1 deployments shop/Web"},
		"variable":           {"variables and their fields", "{{$m := .trigger.metadata}}{{$m.name}} {{$m.namespace}}", "Web shop"},
		"assigned":           {"an assignment prints nothing", `{{$x := "a"}}{{if true}}{{$x = "b"}}{{end}}{{$x}}`, "b"},
		"parentheses":        {"fields of a parenthesised value", "{{(.trigger.metadata).name}}", "Web"},
		"else":               {"dot is the variables again after with", "{{with default false .trigger.spec.paused}}x{{else}}{{.user.name}}{{end}}", "jane"},
		"if":                 {"conditions work", `{{if eq .trigger.spec.replicas 3}}three{{else}}other{{end}}`, "three"},
		"comment and trim":   {"text/template's own syntax stays", "a {{- /* note */ -}} b", "ab"},
		"int64":              {"an int64 is exact", "{{.trigger.spec.huge}}", "9007199254740993"},
		"whole float":        {"a float that is whole has no exponent", "{{.trigger.spec.whole}} {{.trigger.spec.billion}}", "3 1000000000000000000000"},
		"float":              {"a fraction is written in full", "{{.trigger.spec.ratio}}", "0.25"},
		"boolean":            {"a boolean is a word", "{{.trigger.spec.paused}}", "false"},
		"key with slash":     {"index reads what chains cannot", `{{index .trigger.metadata.labels "app.kubernetes.io/name"}}`, "web"},
		"nested index":       {"index takes several keys", `{{index .trigger "spec" "ports" 2 "name"}}`, "grpc"},
		"short circuit":      {"or stops before a field that is missing", `{{or .trigger.metadata.name .trigger.nope}}`, "Web"},
		"built-in functions": {"those that cannot blow up", `{{len .trigger.spec.ports}}{{slice "abc" 1 2}}{{and true (not false)}}{{ne 1 2}}{{lt 1 2}}{{le 1 2}}{{gt 1 2}}{{ge 1 2}}`, "3btruetruetruetruefalsefalse"},
	} {
		t.Run(name, func(t *testing.T) {
			got, reasons := renderText(tc.source, sample())
			if reasons != nil || got != tc.want {
				t.Errorf("%s: %s = %q, %q, want %q", tc.reason, tc.source, got, reasons, tc.want)
			}
		})
	}
}

func TestDefault(t *testing.T) {
	for name, tc := range map[string]struct{ reason, source, want string }{
		"present":           {"a value wins", `{{default "x" .trigger.metadata.namespace}}`, "shop"},
		"missing":           {"a missing leaf", `{{default "x" .trigger.metadata.nope}}`, "x"},
		"missing parents":   {"all the way up", `{{default "x" .trigger.a.b.c}}`, "x"},
		"null":              {"null counts as missing", `{{default "x" .trigger.spec.nothing}}`, "x"},
		"below null":        {"so does what is below", `{{default "x" .trigger.spec.nothing.more}}`, "x"},
		"empty text":        {"an empty text is replaced", `{{default "x" .trigger.metadata.labels.empty}}`, "x"},
		"false":             {"so is false", `{{default "x" .trigger.spec.paused}}`, "x"},
		"piped":             {"the value comes through the pipe", `{{.trigger.a.b | default "x"}}`, "x"},
		"piped on":          {"and goes on", `{{.trigger.a.b | default "x" | upper}}`, "X"},
		"parentheses":       {"parentheses change nothing", `{{default "x" ((.trigger.a).b)}}`, "x"},
		"piped parentheses": {"nor piped ones", `{{(.trigger.a.b) | default "x"}}`, "x"},
		"index":             {"a missing key", `{{default "x" (index .trigger.metadata.labels "no/such")}}`, "x"},
		"index of missing":  {"a key of what is missing", `{{index .trigger.nope "no/such" | default "x"}}`, "x"},
		"index of a list":   {"a position past the end", `{{default "x" (index .trigger.spec.ports 9)}}`, "x"},
		"variable":          {"fields of a variable", `{{$m := .trigger.metadata}}{{default "x" $m.nope.more}}`, "x"},
		"dollar":            {"fields of the variables", `{{with .trigger.spec}}{{default "x" $.trigger.nope}}{{end}}`, "x"},
		"within with":       {"fields of dot", `{{with .trigger.spec}}{{default "x" .nope.more}}{{end}}`, "x"},
		"fallback missing":  {"the fallback is not needed", `{{default .trigger.nope .trigger.metadata.name}}`, "Web"},
		"nested":            {"the first that is there", `{{default "x" (default .trigger.a .trigger.b)}}`, "x"},
		"as a condition":    {"asks whether a field is there", `{{if default "" .trigger.a.b}}yes{{else}}no{{end}}`, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			got, reasons := renderText(tc.source, sample())
			if reasons != nil || got != tc.want {
				t.Errorf("%s: %s = %q, %q, want %q", tc.reason, tc.source, got, reasons, tc.want)
			}
		})
	}
}

func TestTemplateErrors(t *testing.T) {
	const roots = "; templates see .trigger, .object, .namespaceObject, .user and .requestInfo"
	for name, tc := range map[string]struct {
		reason, source string
		want           []string
	}{
		"missing field":        {"names the field", "{{.trigger.metadata.nope}}", []string{"1:3: .trigger.metadata.nope is not set"}},
		"missing parent":       {"names the parent as well", "x{{ .trigger.a.b.c }}", []string{"1:5: .trigger.a.b.c is not set: there is no .trigger.a"}},
		"null":                 {"null is no value", "{{.trigger.spec.nothing}}", []string{"1:3: .trigger.spec.nothing is not set"}},
		"missing argument":     {"only default tolerates it", "{{lower .trigger.nope}}", []string{"1:9: .trigger.nope is not set"}},
		"missing before piped": {"default does not look through other functions", `{{.trigger.nope | lower | default "x"}}`, []string{"1:3: .trigger.nope is not set"}},
		"missing in with":      {"names it as the template does", "{{with .trigger.spec}}{{.nope}}{{end}}", []string{"1:25: .nope is not set"}},
		"missing of variable":  {"names the variable", "{{$m := .trigger}}{{$m.nope}}", []string{"1:21: $m.nope is not set"}},
		"missing of value":     {"names the expression", "{{(.trigger.spec).nope}}", []string{"1:4: (.trigger.spec).nope is not set"}},
		"missing key":          {"index is strict too", `{{index .trigger.spec "nope"}}`, []string{`1:3: index: there is nothing under "nope"`}},
		"second line":          {"lines are counted", "a\n  {{.trigger.nope}}", []string{"2:5: .trigger.nope is not set"}},
		"field of a text":      {"a text has no fields, default or not", `{{default "x" .trigger.kind.x}}`, []string{"1:15: .trigger.kind.x cannot be read: .trigger.kind is a text and has no fields"}},
		"object printed":       {"objects are not dumped", "{{.trigger.metadata}}", []string{"1:3: .trigger.metadata is an object, not a text"}},
		"list printed":         {"nor lists", "{{.user.groups}}", []string{"1:3: .user.groups is a list, not a text"}},
		"nothing printed":      {"a missing fallback shows", "{{default .trigger.a .trigger.b}}", []string{"1:3: default .trigger.a .trigger.b has no value"}},
		"complex number":       {"Go's, not JSON's", "{{1i}}", []string{"1:3: 1i is of an unknown kind, not a text"}},
		"unequal types":        {"a built-in function's error keeps its name", `{{eq 1 "a"}}`, []string{"1:3: eq: incompatible types for comparison: int and string"}},
		"past the end":         {"slice counts bytes", `{{slice "é" 3}}`, []string{"1:3: slice: index out of range: 3"}},

		"unknown variable":       {"found when the policy is written", "{{.foo.bar}}", []string{"1:3: there is no .foo" + roots}},
		"unknown by dollar":      {"also by $", "{{with .user}}{{$.foo.bar}}{{end}}", []string{"1:17: there is no .foo" + roots}},
		"unknown in argument":    {"also under default", `{{default "x" .foo}}`, []string{"1:15: there is no .foo" + roots}},
		"unknown field of user":  {"user is known", "{{.user.nmae}}", []string{"1:3: there is no .user.nmae; .user has name, uid, groups, extra"}},
		"unknown function":       {"with its position", "ab{{.user.name | shout}}", []string{"1:18: there is no function shout"}},
		"several":                {"all at once, in order", "{{.a}}{{b}}{{if .c}}{{end}}", []string{"1:3: there is no .a" + roots, "1:9: there is no function b", "1:17: there is no .c" + roots}},
		"our own functions":      {"are not for templates", `{{bursarPrinted "a" 1}}`, []string{"1:3: there is no function bursarPrinted"}},
		"printf":                 {"could print a megabyte", `{{printf "%1000000d" 1}}`, []string{"1:3: there is no function printf"}},
		"print":                  {"shows missing values", `{{print 1}}{{println 1}}`, []string{"1:3: there is no function print", "1:14: there is no function println"}},
		"escapers":               {"make texts longer", `{{html 1}}{{js 1}}{{urlquery 1}}`, []string{"1:3: there is no function html", "1:13: there is no function js", "1:21: there is no function urlquery"}},
		"call":                   {"there is nothing to call", `{{call .trigger.spec}}`, []string{"1:3: there is no function call"}},
		"range":                  {"no loops", "{{range .user.groups}}{{.}}{{end}}", []string{"1:9: range is not allowed: templates have no loops"}},
		"define":                 {"no further templates", `{{define "x"}}y{{end}}`, []string{"1:15: define and block are not allowed: a template cannot call another"}},
		"define its own name":    {"nor this one again", `{{define "claim"}}y{{end}}`, []string{"1:19: define and block are not allowed: a template cannot call another"}},
		"template":               {"no recursion", `{{template "claim" .}}`, []string{"1:12: template and block are not allowed: a template cannot call another"}},
		"break":                  {"no loop to leave", "{{break}}", []string{"line 1: {{break}} outside {{range}}"}},
		"nil":                    {"nothing to do with it", "{{lower nil}}", []string{"1:9: nil is not allowed"}},
		"set in parentheses":     {"hard to read", "{{($x := 1)}}", []string{"1:4: a variable cannot be set within parentheses"}},
		"field with argument":    {"fields are not functions", `{{.user.name "x"}}`, []string{"1:3: .user.name is not a function and takes no arguments"}},
		"field given the pipe":   {"nor at the end of a pipe", `{{"x" | .user.name}}`, []string{"1:9: .user.name is not a function and takes no arguments"}},
		"too few arguments":      {"counted when the policy is written", "{{lower}}", []string{"1:3: lower takes 1 argument, not 0"}},
		"too few of many":        {"in the plural", `{{replace "a" "b"}}`, []string{"1:3: replace takes 3 arguments, not 2"}},
		"too few, no upper end":  {"in other words", "{{index .trigger}}", []string{"1:3: index takes at least 2 arguments, not 1"}},
		"too many arguments":     {"the piped one counts", `{{"a" | lower "b"}}`, []string{"1:9: lower takes 1 argument, not 2"}},
		"too many in a range":    {"both ends are told", `{{slice "a" 1 2 3 4}}`, []string{"1:3: slice takes 1 to 4 arguments, not 5"}},
		"function as argument":   {"wants parentheses", `{{upper lower}}`, []string{"1:9: lower takes 1 argument, not 0"}},
		"unclosed":               {"the syntax is wrong", "a\n{{.user.name", []string{"line 2: unclosed action"}},
		"unknown local variable": {"found by the parser", "{{$x}}", []string{`line 1: undefined variable "$x"`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, reasons := renderText(tc.source, sample())
			if diff := cmp.Diff(tc.want, reasons); diff != "" {
				t.Errorf("%s: %s = %q, with faults (-want +got):\n%s", tc.reason, tc.source, got, diff)
			}
		})
	}
}

func TestTemplateIsBounded(t *testing.T) {
	megabytes := strings.Repeat("a", 3<<20)
	list := make([]any, 1<<20)
	for i := range list {
		list[i] = "a"
	}
	in := Input{Object: map[string]any{
		"long": megabytes, "list": list, "half": strings.Repeat("a", textBytesMax),
		"grows": strings.Repeat("Ⱥ", textBytesMax/2), // lower case takes 3 bytes instead of 2
		"lines": strings.Repeat("\n", listItemsMax), "longs": []any{megabytes, megabytes},
	}}
	for name, tc := range map[string]struct{ reason, source, want string }{
		"output":          {"what is printed at once", "{{.trigger.long}}", "the text is longer than 253 bytes"},
		"output in parts": {"and in parts", "{{slice .trigger.long 0 200}}{{slice .trigger.long 0 200}}", "the text is longer than 253 bytes"},
		"argument":        {"a function does not take 3 MiB", "{{lower .trigger.long}}", "1:3: lower: a text is longer than 16384 bytes"},
		"second argument": {"whichever it is", `{{replace .trigger.long "b" "c"}}`, "1:3: replace: a text is longer than 16384 bytes"},
		"case":            {"some letters grow", "{{lower .trigger.grows}}", "1:3: lower: a text is longer than 16384 bytes"},
		"explosion": {
			"replacing again and again does not double without end",
			`{{$x := "a"}}` + strings.Repeat(`{{$x = replace "a" "aaaaaaaaaa" $x}}`, 20),
			"1:165: replace: a text is longer than 16384 bytes",
		},
		"between letters": {"nor replacing nothing", `{{replace "" "aa" .trigger.half}}`, "1:3: replace: a text is longer than 16384 bytes"},
		"join items":      {"a million items", `{{join "," .trigger.list}}`, "1:3: join: a list has more than 1024 items"},
		"join length":     {"two items of 3 MiB", `{{join "," .trigger.longs}}`, "1:3: join: a text is longer than 16384 bytes"},
		"join separator":  {"a separator of 3 MiB", `{{join .trigger.long .trigger.longs}}`, "1:3: join: a text is longer than 16384 bytes"},
		"split":           {"too many parts", `{{len (split "\n" .trigger.lines)}}`, "1:8: split: a list has more than 1024 items"},
		"split letters":   {"into single letters", `{{len (split "" .trigger.half)}}`, "1:8: split: a list has more than 1024 items"},
		"contains":        {"does not search a million items", `{{contains "b" .trigger.list}}`, "1:3: contains: a list has more than 1024 items"},
		"error":           {"errors do not repeat 3 MiB", `{{index .trigger .trigger.long}}`, `1:3: index: there is nothing under "` + megabytes[:40] + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, reasons := renderText(tc.source, in)
			if diff := cmp.Diff([]string{tc.want}, reasons); diff != "" {
				t.Errorf("%s: %s = %.100q, with faults (-want +got):\n%s", tc.reason, tc.source, got, diff)
			}
		})
	}
}
