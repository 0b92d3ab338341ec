package policy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// mustCompile compiles a valid policy after change has changed it.
func mustCompile(t testing.TB, change func(*quotav1alpha1.ClaimCreationPolicy)) *ClaimPolicy {
	t.Helper()
	policy := validPolicy()
	if change != nil {
		change(policy)
	}
	compiled, errs := Compile(policy)
	if len(errs) > 0 {
		t.Fatalf("compile the policy: %v", errs.ToAggregate())
	}
	return compiled
}

func withConditions(expressions ...string) func(*quotav1alpha1.ClaimCreationPolicy) {
	return func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions = nil
		for _, expression := range expressions {
			p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: expression})
		}
	}
}

func TestMatches(t *testing.T) {
	for name, tc := range map[string]struct {
		reason      string
		expressions []string
		want        bool
	}{
		"none":           {"a policy without conditions applies to all", nil, true},
		"true":           {"the object is trigger", []string{`trigger.metadata.name == "Web"`}, true},
		"false":          {"another name", []string{`trigger.metadata.name == "db"`}, false},
		"object":         {"and object", []string{`object.metadata.name == trigger.metadata.name`}, true},
		"user":           {"the documented example", []string{`user.groups.exists(g, g == "dev") && user.name.startsWith("j") && user.uid == "7" && user.extra.team == ["a"]`}, true},
		"request":        {"every field of requestInfo", []string{`requestInfo.verb == "create" && requestInfo.apiGroup + "/" + requestInfo.apiVersion == "apps/v1" && requestInfo.resource == "deployments" && requestInfo.subresource == "" && requestInfo.namespace == "shop" && requestInfo.name == "Web"`}, true},
		"labels":         {"keys that are no identifiers", []string{`trigger.metadata.labels["app.kubernetes.io/name"] == "web"`}, true},
		"numbers":        {"integers are exact, and compare with fractions", []string{`trigger.spec.huge == 9007199254740993 && trigger.spec.ratio < 1`}, true},
		"dynamic":        {"a field may be the result", []string{`trigger.spec.paused`}, false},
		"all hold":       {"all have to hold", []string{`true`, `1 < 2`}, true},
		"one fails":      {"one that does not is enough", []string{`true`, `1 > 2`}, false},
		"guard":          {"later ones are not evaluated", []string{`has(trigger.spec.tier)`, `trigger.spec.tier == "premium"`}, false},
		"libraries":      {"those of Kubernetes", []string{`quantity("1Gi").isGreaterThan(quantity("1Mi")) && "a,b".split(",").size() == 2 && isURL("https://x.y") && semver("1.2.3").major() == 1`}, true},
		"no namespace":   {"its fields are missing", []string{`!has(namespaceObject.metadata)`, `!namespaceObject.?metadata.hasValue()`}, true},
		"optional field": {"optional types are on", []string{`trigger.?spec.?tier.orValue("free") == "free"`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustCompile(t, withConditions(tc.expressions...))
			got, err := p.Matches(context.Background(), sample())
			if err != nil || got != tc.want {
				t.Errorf("%s: %q = %t, %v, want %t", tc.reason, tc.expressions, got, err, tc.want)
			}
		})
	}
}

func TestMatchesErrors(t *testing.T) {
	short := make([]any, 60)
	for i := range short {
		short[i] = int64(i)
	}
	in := sample()
	in.Object["short"] = short
	// Too much for us, but within the environment's own limit of 1,000,000.
	costly := `[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(a, trigger.short.all(b, trigger.short.all(c, b + c >= 0)))`
	// Each costs about 75,000 of the 100,000 for a condition, so the fourth is one too many.
	dear := `[1, 2, 3].all(a, trigger.short.all(b, trigger.short.all(c, b + c >= 0)))`
	for name, tc := range map[string]struct {
		reason      string
		expressions []string
		want        string
	}{
		"missing field": {
			"names the condition and the field",
			[]string{`true`, `trigger.spec.tier == "premium"`},
			`evaluate spec.trigger.conditions[1].expression "trigger.spec.tier == \"premium\"": no such key: tier`,
		},
		"not a bool": {
			"only known once there is an object",
			[]string{`trigger.metadata.name`},
			`evaluate spec.trigger.conditions[0].expression "trigger.metadata.name": it yields string, not bool`,
		},
		"wrong types": {
			"a text is not a number",
			[]string{`trigger.metadata.name > 3`},
			`evaluate spec.trigger.conditions[0].expression "trigger.metadata.name > 3": no such overload`,
		},
		"costly": {
			"36,000 steps",
			[]string{costly},
			`evaluate spec.trigger.conditions[0].expression "` + costly + `": it costs more than 100000 units for this object`,
		},
		"costly together": {
			"the policy has a bound as well",
			[]string{dear, dear, dear, dear, dear, dear, dear, dear, dear, dear},
			`evaluate spec.trigger.conditions[3].expression "` + dear + `": up to here the policy's conditions cost more than 250000 units for this object`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustCompile(t, withConditions(tc.expressions...))
			synctest.Test(t, func(t *testing.T) { // computing takes no time in it
				got, err := p.Matches(t.Context(), in)
				if err == nil || err.Error() != tc.want {
					t.Errorf("%s: got %t, %v, want %s", tc.reason, got, err, tc.want)
				}
			})
		})
	}
}

// CEL repeats invalid values in its errors. They may be as large as the object.
func TestErrorsAreBounded(t *testing.T) {
	const errorBytesMax = 1024
	in := Input{Object: map[string]any{"data": map[string]any{"big": strings.Repeat("é", 150_000)}}}
	for name, tc := range map[string]struct{ reason, expression, want string }{
		"key":      {"a key that is missing", `trigger.data[trigger.data.big] == "x"`, "no such key: éé"},
		"argument": {"a text that is no URL", `url(trigger.data.big).getHost() == "x"`, "éé..."},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mustCompile(t, withConditions(tc.expression)).Matches(t.Context(), in)
			if err == nil || len(err.Error()) > errorBytesMax || !strings.Contains(err.Error(), tc.want) || !utf8.ValidString(err.Error()) {
				t.Errorf("%s: got %.2000v, want at most %d bytes with %q", tc.reason, err, errorBytesMax, tc.want)
			}
		})
	}
}

// Comparing objects is cheap by CEL's count, and slow by the clock.
func TestMatchesStopsInTime(t *testing.T) {
	p := mustCompile(t, withConditions(`trigger.list.all(a, trigger == object)`))
	list := make([]any, 100_000)
	for i := range list {
		list[i] = map[string]any{"i": int64(i)}
	}
	_, err := p.Matches(t.Context(), Input{Object: map[string]any{"list": list}})
	if !TookTooLong(err) {
		t.Errorf("got %v, want %v", err, errTakesTooLong)
	}
}

func TestMatchesStopsWithContext(t *testing.T) {
	p := mustCompile(t, withConditions(`trigger.list.all(a, trigger.list.all(b, trigger.list.all(c, true)))`))
	list := make([]any, 10_000)
	for i := range list {
		list[i] = int64(i)
	}
	in := Input{Object: map[string]any{"list": list}}

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Matches(ended, in); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v, want context.Canceled", err)
	}
	// The evaluation ends for another reason than its cost, so the outer loops stop as well.
	brief, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := p.Matches(brief, in); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a context that ends during the evaluation: %v, want context.DeadlineExceeded", err)
	}
}

func TestCompileCondition(t *testing.T) {
	path := field.NewPath("spec", "trigger", "conditions").Index(0).Child("expression")
	const at = "spec.trigger.conditions[0].expression: "
	long := `"` + strings.Repeat("é", expressionCharsMax-6) + `"==`
	for name, tc := range map[string]struct {
		reason, expression string
		want               []string
	}{
		"empty":           {"nothing to evaluate", "", []string{at + "Required value: a condition needs a CEL expression"}},
		"longest":         {"characters count, not bytes", long + `""`, nil},
		"too long":        {"one character more", long + ` ""`, []string{at + `Too long: may not be more than 1024 characters`}},
		"syntax":          {"with its position", "true &&", []string{at + `Invalid value: "true &&": 1:8: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}`}},
		"several":         {"all at once", "foo == 1 &&\n  bar", []string{at + `Invalid value: "foo == 1 &&\n  bar": 1:1: undeclared reference to 'foo'; this expression sees ` + seesRequest, at + `Invalid value: "foo == 1 &&\n  bar": 2:3: undeclared reference to 'bar'; this expression sees ` + seesRequest}},
		"not a bool":      {"a text is no answer", `"yes"`, []string{at + `Invalid value: "\"yes\"": 1:1: a condition must yield bool, not string`}},
		"dynamic is fine": {"it may turn out to be one", `trigger.spec.paused`, nil},
		"unsound regex":   {"literals are checked", `"a".matches("(")`, []string{at + `Invalid value: "\"a\".matches(\"(\")": 1:13: invalid matches argument`}},
		"very many":       {"the first ten", strings.Repeat("a+", 20) + "1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := compileCondition(path, tc.expression, seesRequest)
			if name == "very many" {
				if len(errs) != errorsMax {
					t.Errorf("%s: got %d errors, want %d", tc.reason, len(errs), errorsMax)
				}
				return
			}
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: errors (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
