package validate_test

import (
	"maps"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bursar/bursar/internal/admission/validate"
)

func client(path string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:9443" + path)}
}

// TestMatchedRequests checks the operations for each webhook.
func TestMatchedRequests(t *testing.T) {
	matched := func(rules []admissionregistrationv1.RuleWithOperations) map[string][]admissionregistrationv1.OperationType {
		operations := map[string][]admissionregistrationv1.OperationType{}
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				operations[resource] = append(operations[resource], rule.Operations...)
			}
		}
		return operations
	}
	writes := []admissionregistrationv1.OperationType{"CREATE", "UPDATE"}
	all := []admissionregistrationv1.OperationType{"CREATE", "UPDATE", "DELETE"}
	creates, updates := []admissionregistrationv1.OperationType{"CREATE"}, []admissionregistrationv1.OperationType{"UPDATE"}
	wantValidating := map[string][]admissionregistrationv1.OperationType{
		"effectiveresourcegrants": writes,
		"resourceregistrations":   all,
		"resourcegrants":          writes,
		"resourceclaims":          all,
		"allowancebuckets":        writes,
		"claimcreationpolicies":   writes,
		"grantcreationpolicies":   writes,
		"consumerledgers":         all,

		"resourcequotaallocations": writes,
		"allocationledgers":        writes,
		"quotaincreases":           writes,
		"quotaserviceconfigs":      writes,
	}
	for resource := range maps.Clone(wantValidating) {
		wantValidating[resource+"/status"] = updates
	}
	wantValidating["localresourcequotaallocations"] = writes // the whole of one is a status
	wantValidating["quotarequestpolicies"], wantValidating["quotaalerts"] = writes, writes
	wantValidating["quotadecisions"] = creates // the schema makes them immutable
	wantValidating["quotarequests"], wantValidating["quotarequests/status"] = writes, updates
	if diff := cmp.Diff(wantValidating, matched(validate.ValidatingWebhooks(client, bursar, systemNamespace)[0].Rules)); diff != "" {
		t.Errorf("validation is asked about every kind and its status (-want +got):\n%s", diff)
	}
	namespaces := validate.ValidatingWebhooks(client, bursar, systemNamespace)[1]
	wantNamespaces := map[string][]admissionregistrationv1.OperationType{"namespaces": {"DELETE"}}
	if diff := cmp.Diff(wantNamespaces, matched(namespaces.Rules)); diff != "" {
		t.Errorf("and about namespaces that go (-want +got):\n%s", diff)
	}
	wantSelector := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": systemNamespace}}
	if diff := cmp.Diff(wantSelector, namespaces.NamespaceSelector); diff != "" {
		t.Errorf("others can be deleted while Bursar is down (-want +got):\n%s", diff)
	}
	policies := validate.ValidatingWebhooks(client, bursar, systemNamespace)[3]
	wantPolicies := map[string][]admissionregistrationv1.OperationType{"claimcreationpolicies": {"DELETE"}, "grantcreationpolicies": {"DELETE"}, "resourcegrants": {"DELETE"}}
	if diff := cmp.Diff(wantPolicies, matched(policies.Rules)); diff != "" || *policies.FailurePolicy != admissionregistrationv1.Ignore {
		t.Errorf("policies and grants can be deleted while Bursar is down, by %s (-want +got):\n%s", *policies.FailurePolicy, diff)
	}
	wantMutating := map[string][]admissionregistrationv1.OperationType{"resourceclaims": {"CREATE", "UPDATE"}}
	if diff := cmp.Diff(wantMutating, matched(validate.MutatingWebhooks(client, bursar)[0].Rules)); diff != "" {
		t.Errorf("mutation is asked about claims that somebody writes (-want +got):\n%s", diff)
	}
}

// Webhooks answer reviews, histories and usages, for creates. Each has the fields with defaults of the API server.
func TestAnsweringWebhooks(t *testing.T) {
	answered := map[string]string{}
	for _, w := range validate.MutatingWebhooks(client, bursar) {
		if w.ReinvocationPolicy == nil || w.FailurePolicy == nil || w.MatchPolicy == nil || w.TimeoutSeconds == nil || w.Rules[0].Scope == nil {
			t.Errorf("%s lacks a field that the API server sets: %+v", w.Name, w)
		}
		if len(w.Rules) == 1 && cmp.Equal(w.Rules[0].Operations, []admissionregistrationv1.OperationType{"CREATE"}) {
			answered[w.Rules[0].Resources[0]] = *w.ClientConfig.URL
		}
	}
	want := map[string]string{
		"quotareviews": *client(validate.QuotaReviewPath).URL, "quotahistories": *client(validate.QuotaHistoryPath).URL,
		"quotausages": *client(validate.QuotaUsagePath).URL,
	}
	if diff := cmp.Diff(want, answered); diff != "" {
		t.Errorf("answered kinds (-want +got):\n%s", diff)
	}
}

func TestMatchConditions(t *testing.T) {
	bare := map[string]any{"metadata": map[string]any{}}
	const oddName = "a \"quoted\" \\ user\nname ü"
	cases := map[string]struct {
		reason               string
		username, user       string
		object               map[string]any
		validated, finalized bool
	}{
		"User":        {reason: "users are asked about", username: bursar, user: "alice", object: bare, validated: true, finalized: true},
		"Bursar":      {reason: "Bursar's own writes pay nothing", username: bursar, user: bursar, object: bare},
		"OddName":     {reason: "a name is quoted", username: oddName, user: oddName, object: bare},
		"OddNameUser": {reason: "a name is quoted", username: oddName, user: "alice", object: bare, validated: true, finalized: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			validating := validate.ValidatingWebhooks(client, c.username, systemNamespace)[0].MatchConditions
			if got := holds(t, validating, c.user, c.object); got != c.validated {
				t.Errorf("%s: validated = %v, want %v", c.reason, got, c.validated)
			}
			mutating := validate.MutatingWebhooks(client, c.username)[0].MatchConditions
			if got := holds(t, mutating, c.user, c.object); got != c.finalized {
				t.Errorf("%s: finalized = %v, want %v", c.reason, got, c.finalized)
			}
		})
	}
}

// holds reports whether all conditions hold for a request.
func holds(t *testing.T, conditions []admissionregistrationv1.MatchCondition, user string, object map[string]any) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.Variable("request", cel.DynType), cel.Variable("object", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range conditions {
		ast, issues := env.Compile(condition.Expression)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", condition.Name, issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		result, _, err := program.Eval(map[string]any{
			"request": map[string]any{"userInfo": map[string]any{"username": user}},
			"object":  object,
		})
		if err != nil {
			t.Fatalf("%s: %v", condition.Name, err)
		}
		if result.Value() != true {
			return false
		}
	}
	return true
}
