package policy

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// requestPolicy has one request for every object.
func requestPolicy(request quotav1alpha1.ResourceRequestTemplate, operations ...quotav1alpha1.TriggerOperation) *quotav1alpha1.ClaimCreationPolicy {
	p := validPolicy()
	p.Spec.Trigger.Conditions, p.Spec.Trigger.Operations = nil, operations
	template := &p.Spec.Target.ResourceClaimTemplate
	template.Spec.ConsumerRef = quotav1alpha1.ConsumerRef{Kind: "Team", Name: "a"}
	template.Spec.Requests = []quotav1alpha1.ResourceRequestTemplate{request}
	return p
}

func TestAmountExpressions(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, expression, baseUnit string
		want                         int64
		wantErr                      string
	}{
		"Number":          {reason: "a number counts base units", expression: "object.spec.replicas * 2", want: 6},
		"Trigger":         {reason: "trigger is the object too", expression: "trigger.spec.replicas", want: 3},
		"Unsigned":        {reason: "uint is a number", expression: "uint(object.spec.replicas)", want: 3},
		"WholeDouble":     {reason: "JSON does not tell 3.0 from 3", expression: "3.0", want: 3},
		"Fraction":        {reason: "half a unit cannot be charged", expression: "1.5", wantErr: "1.5, which is not a whole number"},
		"Zero":            {reason: "an object may cost nothing", expression: "object.spec.replicas - 3", want: 0},
		"Negative":        {reason: "nothing is given back by creating", expression: "object.spec.replicas - 4", wantErr: "yields -1, which is negative"},
		"CPU":             {reason: "a quantity counts whole cores", expression: `quantity("1500m")`, baseUnit: "millicore", want: 1500},
		"CPUText":         {reason: "a text is read as a quantity", expression: `"1.5"`, baseUnit: "millicores", want: 1500},
		"Nano":            {reason: "smaller units too", expression: `"1m"`, baseUnit: "nanocore", want: 1e6},
		"Micro":           {reason: "smaller units too", expression: `"1m"`, baseUnit: "microcore", want: 1000},
		"NotSmall":        {reason: "a prefix is one only before a unit", expression: `"2"`, baseUnit: "million-tokens", want: 2},
		"Memory":          {reason: "a quantity counts bytes", expression: `quantity("2Gi")`, baseUnit: "byte", want: 2 << 30},
		"MemoryInMiB":     {reason: "larger units divide", expression: `"2Gi"`, baseUnit: "MiB", want: 2048},
		"RoundedUp":       {reason: "what is begun counts", expression: `"1"`, baseUnit: "MiB", want: 1},
		"RoundedUpCores":  {reason: "what is begun counts", expression: `"100m"`, baseUnit: "core", want: 1},
		"QuantitySum":     {reason: "quantities can be added", expression: `quantity("1Gi").add(quantity("1Gi"))`, baseUnit: "GiB", want: 2},
		"Exponent":        {reason: "exponents are quantities", expression: `"12e6"`, baseUnit: "byte", want: 12e6},
		"NegativeText":    {reason: "nothing is given back by creating", expression: `"-1"`, wantErr: "negative"},
		"TooMuch":         {reason: "nothing wraps", expression: `"10E"`, wantErr: "10E, which is more than can be counted"},
		"NoSuffix":        {reason: "Kubernetes has no suffix for it", expression: `"1000E"`, wantErr: "1000000000000000000000, which is more than can be counted"},
		"TooMuchUnsigned": {reason: "nothing wraps", expression: "18446744073709551615u", wantErr: "more than can be counted"},
		"NotAQuantity":    {reason: "a text has to be a quantity", expression: `"many"`, wantErr: `the text "many", which is not a quantity`},
		"HugeExponent":    {reason: "reading it would take hours", expression: `"1e-2000000000"`, wantErr: "is not a quantity"},
		"Missing":         {reason: "a missing field is named", expression: "object.spec.size", wantErr: "no such key: size"},
		"Dynamic":         {reason: "the type may turn out only then", expression: "object.metadata", wantErr: "not a number or a quantity"},
	} {
		t.Run(name, func(t *testing.T) {
			p, errs := Compile(requestPolicy(quotav1alpha1.ResourceRequestTemplate{ResourceType: "size", AmountExpression: tc.expression}))
			if len(errs) > 0 {
				t.Fatalf("%s: %v", tc.reason, errs)
			}
			in := sample()
			in.Units = unit(tc.baseUnit)
			claim, err := p.Render(t.Context(), in)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) || !strings.Contains(err.Error(), "requests[0].amountExpression") {
					t.Fatalf("%s: got %v, want an error of requests[0].amountExpression with %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			var got int64
			if claim != nil {
				got = claim.Spec.Requests[0].Amount
			}
			if got != tc.want {
				t.Errorf("%s: %s yields %d, want %d", tc.reason, tc.expression, got, tc.want)
			}
		})
	}
}

// Requests with the amount 0 are omitted, and the others are not.
func TestRequestsOfNothingAreLeftOut(t *testing.T) {
	policy := requestPolicy(quotav1alpha1.ResourceRequestTemplate{ResourceType: "none", AmountExpression: "0"})
	requests := &policy.Spec.Target.ResourceClaimTemplate.Spec.Requests
	*requests = append(*requests, quotav1alpha1.ResourceRequestTemplate{ResourceType: "one", Amount: 1})
	p, errs := Compile(policy)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	claim, err := p.Render(t.Context(), sample())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]quotav1alpha1.ResourceRequest{{ResourceType: "one", Amount: 1}}, claim.Spec.Requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// Reading a quantity with such an exponent takes the quantity functions of CEL hours, wherever it
// comes from, and nothing can interrupt them.
func TestTextsThatAreNoQuantities(t *testing.T) {
	long := strings.Repeat("0", 20000) + "1e99999999"
	for name, tc := range map[string]struct {
		expression, want string
	}{
		"Field":      {"quantity(object.spec.size).asInteger()", `"1e-2000000000" is not a quantity`},
		"Long":       {"quantity(object.spec.long).asInteger()", "is not a quantity"},
		"Key":        {"object.spec.keys.all(k, quantity(k).isInteger()) ? 1 : 2", "is not a quantity"},
		"Namespace":  {"quantity(namespaceObject.metadata.name).asInteger()", "is not a quantity"},
		"Joined":     {`quantity("1e" + object.spec.digits).asInteger()`, "is not a quantity"},
		"IsQuantity": {"isQuantity(object.spec.size) ? 1 : 2", ""},
		"Good":       {`quantity("2Ki").asInteger()`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, errs := Compile(requestPolicy(quotav1alpha1.ResourceRequestTemplate{ResourceType: "size", AmountExpression: tc.expression}))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			in := sample()
			spec := in.Object["spec"].(map[string]any)
			spec["size"], spec["long"], spec["digits"], spec["keys"] = "1e-2000000000", long, "2000000000", map[string]any{"1e2000000000": "x"}
			in.NamespaceObject = map[string]any{"metadata": map[string]any{"name": "1e2000000000"}}
			claim, err := p.Render(t.Context(), in)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
			if name == "IsQuantity" && claim.Spec.Requests[0].Amount != 2 {
				t.Error("a text with such an exponent is called a quantity")
			}
		})
	}
}

func TestAmountErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		request quotav1alpha1.ResourceRequestTemplate
		want    string
	}{
		"Syntax":  {"the position is told", quotav1alpha1.ResourceRequestTemplate{AmountExpression: "object.spec."}, "1:13: Syntax error"},
		"Type":    {"a boolean is no amount", quotav1alpha1.ResourceRequestTemplate{AmountExpression: "true"}, "must yield a number or a quantity, not bool"},
		"User":    {"an amount depends on the object alone", quotav1alpha1.ResourceRequestTemplate{AmountExpression: "size(user.name)"}, "undeclared reference to 'user'"},
		"Both":    {"there is one amount", quotav1alpha1.ResourceRequestTemplate{Amount: 1, AmountExpression: "1"}, "give either amount or amountExpression"},
		"Neither": {"there is an amount", quotav1alpha1.ResourceRequestTemplate{}, "must be greater than 0"},
		"TooLong": {"expressions are bounded", quotav1alpha1.ResourceRequestTemplate{AmountExpression: strings.Repeat("1+", 600) + "1"}, "may not be more than 1024 characters"},
	} {
		tc.request.ResourceType = "size"
		_, errs := Compile(requestPolicy(tc.request))
		if got := errs.ToAggregate(); (got == nil) != (tc.want == "") || got != nil && !strings.Contains(got.Error(), tc.want) {
			t.Errorf("%s (%s): got %v, want an error with %q", name, tc.reason, got, tc.want)
		}
	}
}

// An expression too costly for an object is an error with the cost as its reason.
func TestCostlyAmount(t *testing.T) {
	p, errs := Compile(requestPolicy(quotav1alpha1.ResourceRequestTemplate{ResourceType: "size",
		AmountExpression: "object.spec.list.map(a, object.spec.list.map(b, object.spec.list.size())).size()"}))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	in := sample()
	in.Object["spec"].(map[string]any)["list"] = make([]any, 2000)
	synctest.Test(t, func(t *testing.T) { // computing takes no time in it
		if _, err := p.Render(t.Context(), in); err == nil || !strings.Contains(err.Error(), "costs more than") {
			t.Errorf("got %v, want an error that says what it costs", err)
		}
	})
}

// The demand of a policy on updates may not depend on the user.
func TestPoliciesThatFollowUpdatesAreSteady(t *testing.T) {
	create, update := quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate
	type policy = quotav1alpha1.ClaimCreationPolicy
	for name, tc := range map[string]struct {
		reason string
		change func(*policy)
		want   string
	}{
		"Condition": {"conditions decide what is asked", func(p *policy) {
			p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: "user.name == 'jane'"}}
		}, "spec.trigger.conditions[0].expression"},
		"Consumer": {"the consumer is who pays", func(p *policy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = "{{.user.name}}"
		}, "spec.target.resourceClaimTemplate.spec.consumerRef.name"},
		"Everything": {"who has all variables has the user", func(p *policy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = `{{index . "user" "name"}}`
		}, "may not use user here"},
		"Dollar": {"by its other name too", func(p *policy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = `{{with .trigger}}{{$.user.name}}{{end}}`
		}, "may not use user here"},
		"Dimension": {"a dimension decides which allowance pays", func(p *policy) {
			p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Dimensions = map[string]string{"verb": "{{.requestInfo.verb}}"}
		}, "may not use requestInfo here"},
		"Name":       {"a claim has one name", func(p *policy) { p.Spec.Target.ResourceClaimTemplate.Metadata.Name = "{{.user.name}}" }, "metadata.name"},
		"Annotation": {"annotations say who made the object", func(*policy) {}, ""},
	} {
		p := requestPolicy(quotav1alpha1.ResourceRequestTemplate{ResourceType: "size", Amount: 1}, create, update)
		tc.change(p)
		compiled, errs := Compile(p)
		if got := errs.ToAggregate(); (got == nil) != (tc.want == "") || got != nil && !strings.Contains(got.Error(), tc.want) {
			t.Errorf("%s (%s): got %v, want an error with %q", name, tc.reason, got, tc.want)
		}
		if tc.want == "" && !compiled.FollowsUpdates() {
			t.Errorf("%s: it does not follow updates", name)
		}
		p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{create}
		if compiled, errs := Compile(p); len(errs) > 0 || compiled.FollowsUpdates() {
			t.Errorf("%s: of a policy on creates alone: %v", name, errs)
		}
	}
}

func FuzzQuantities(f *testing.F) {
	for _, seed := range []string{"1", "1.5", "100m", "2Gi", "-1", "1e9", "9223372036854775807", "0.000000001n"} {
		f.Add(seed, "MiB")
	}
	f.Fuzz(func(t *testing.T, text, unit string) {
		quantity, err := parseQuantity(text)
		if err != nil {
			return
		}
		amount, err := toBaseUnits(quantity, unit)
		if err == nil && quantity.Sign() > 0 && (amount <= 0 || amount == math.MinInt64) {
			t.Errorf("%s is %d %s", text, amount, unit)
		}
	})
}

// unit is the base unit of every resource type.
type unit string

func (u unit) BaseUnit(string) string { return string(u) }
