package policy

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A template compiles or not, and then renders to a bounded valid text or not. It never renders the text of
// text/template for a missing value, and never panics.
func FuzzTemplate(f *testing.F) {
	for _, source := range []string{
		"plain", "{{.trigger.metadata.name | lower}}-claim", `{{default "x" .trigger.a.b.c}}`,
		`{{index .trigger.metadata.labels "a/b" | default "x"}}`, `{{(split "/" .trigger.apiVersion)._1}}`,
		`{{$x := "a"}}{{$x = replace "a" "aa" $x}}{{$x}}`, "{{with .trigger}}{{.kind}}{{else}}{{$.user.name}}{{end}}",
		`{{if and .trigger (not .user.uid)}}{{join "," .user.groups}}{{end}}`, "{{range .user.groups}}{{.}}{{end}}",
		`{{define "x"}}{{template "x"}}{{end}}{{block "y" .}}{{end}}`, `{{printf "%1000000d" 1}}`, "{{((.trigger).spec).ports}}",
		"{{- /* c */ -}}", "{{1i}}{{'a'}}{{0x1p-2}}{{nil}}{{true}}", `{{slice "é" 1}}{{len .}}{{eq . .}}{{call .}}`,
	} {
		f.Add(source)
	}
	path := field.NewPath("spec", "name")
	f.Fuzz(func(t *testing.T, source string) {
		in := sample()
		in.Object["large"] = strings.Repeat("large ", 20_000)
		compiled, errs := compileField(path, source, annotationRules)
		if len(errs) > 0 {
			return
		}
		text, err := compiled.render(t.Context(), in.variables())
		if err != nil {
			return
		}
		if len(text) > annotationBytesMax || !utf8.ValidString(text) {
			t.Errorf("%q renders to %d bytes, valid UTF-8: %t", source, len(text), utf8.ValidString(text))
		}
		for _, missing := range []string{"<no value>", "<nil>"} {
			if strings.Contains(text, missing) && !strings.Contains(source, "<") {
				t.Errorf("%q renders to %q", source, text)
			}
		}
	})
}

// Any condition compiles or not, and then evaluates within its cost or not.
func FuzzCondition(f *testing.F) {
	for _, expression := range []string{
		"true", `trigger.spec.tier == "premium"`, `user.groups.exists(g, g == "dev")`, "trigger.spec.ports.map(p, p).size() > 2",
		`"a".matches("(a+)+")`, "((((((1))))))", "[[[]]]", "{1: 2}[1] == 2", "trigger.?a.orValue(false)", "has(object.a.b)",
		`quantity("1") == quantity("1")`, `"%s".format([trigger]) != ""`, "1/0 == 1", "duration('1h') > duration('1s')",
	} {
		f.Add(expression)
	}
	path := field.NewPath("spec", "expression")
	f.Fuzz(func(t *testing.T, expression string) {
		compiled, errs := compileCondition(path, expression, seesRequest)
		if len(errs) > 0 {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		in := sample()
		_, cost, err := compiled.evaluate(ctx, in.variables())
		if err == nil && cost > expressionCostMax {
			t.Errorf("%q cost %d", expression, cost)
		}
		if ctx.Err() != nil {
			t.Errorf("%q took more than 10 s", expression)
		}
	})
}
