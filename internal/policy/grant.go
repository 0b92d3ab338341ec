package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// GrantPolicy is a compiled GrantCreationPolicy. It is immutable and safe for concurrent use.
//
// It applies to an object and not to a request, so CEL sees only trigger and object. Templates may name user and
// requestInfo too, as the API promises, but all their fields are empty.
type GrantPolicy struct {
	conditions []*condition
	// parentName yields the name of the control plane to make the grant in; nil for the policy's own.
	parentName *nameExpression
	metadataFields
	consumer    consumerFields
	allowances  []quotav1alpha1.Allowance
	period      quotav1alpha1.Period
	usesRequest bool
}

// UsesRequest reports whether a template uses user or requestInfo. Both are empty.
func (p *GrantPolicy) UsesRequest() bool { return p.usesRequest }

// CompileGrant checks a policy as far as possible without objects, registrations or control planes. It does not check
// the allowances. Errors are as those of [Compile].
func CompileGrant(policy *quotav1alpha1.GrantCreationPolicy) (*GrantPolicy, field.ErrorList) {
	c := &grantCompiler{compiler: compiler{sees: seesTrigger}}
	spec := field.NewPath("spec")
	template := policy.Spec.Target.ResourceGrantTemplate
	at := spec.Child("target", "resourceGrantTemplate")
	p := &GrantPolicy{metadataFields: metadataFields{defaultPrefix: policy.Name + "-"}}

	p.conditions = c.objectConditions(spec.Child("trigger"), policy.Spec.Trigger.Conditions, policy.Spec.Trigger.Constraints)
	if parent := policy.Spec.Target.ParentContext; parent != nil {
		p.parentName = c.parentName(spec.Child("target", "parentContext", "nameExpression"), parent.NameExpression)
	}
	metadata := at.Child("metadata")
	p.name = c.text(metadata.Child("name"), template.Metadata.Name, nameRules)
	p.generateName = c.text(metadata.Child("generateName"), template.Metadata.GenerateName, generateNameRules)
	p.namespace = c.text(metadata.Child("namespace"), template.Metadata.Namespace, namespaceRules)
	p.labels = c.labels(metadata.Child("labels"), template.Metadata.Labels)
	p.annotations = c.annotations(metadata.Child("annotations"), template.Metadata.Annotations)
	for i := range p.annotations {
		c.checkVariables(metadata.Child("annotations").Key(p.annotations[i].key), &p.annotations[i].value)
	}
	p.consumer = c.grantConsumer(at.Child("spec", "consumerRef"), template.Spec.ConsumerRef)
	p.allowances = c.allowances(at.Child("spec", "allowances"), template.Spec.Allowances)
	p.period = *template.Spec.Period.DeepCopy()
	p.period.Truncate()
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	p.usesRequest = c.templatesUseRequest
	return p, nil
}

// grantCompiler is a compiler for policies without a request and a namespace.
type grantCompiler struct {
	compiler
	templatesUseRequest bool
}

func (c *grantCompiler) objectConditions(trigger *field.Path, conditions, constraints []quotav1alpha1.ConditionExpression) []*condition {
	compiled := c.conditions(trigger, conditions, constraints)
	for _, condition := range compiled {
		if condition != nil {
			c.rejectVariables(field.NewPath(condition.path), condition.source, condition.uses, notSeen, varUser, varRequestInfo, varNamespace)
		}
	}
	return compiled
}

// text compiles a field that may be a template.
func (c *grantCompiler) text(path *field.Path, source string, rules fieldRules) templateField {
	compiled := c.field(path, source, rules)
	c.checkVariables(path, &compiled)
	return compiled
}

func (c *grantCompiler) checkVariables(path *field.Path, f *templateField) {
	if f.template == nil {
		return
	}
	c.rejectVariables(path, f.template.source, f.template.uses, notSeen, varNamespace)
	c.templatesUseRequest = c.templatesUseRequest || f.template.uses.has(varUser, varRequestInfo)
}

func (c *grantCompiler) grantConsumer(path *field.Path, ref quotav1alpha1.ConsumerRef) consumerFields {
	return consumerFields{
		apiGroup:  c.text(path.Child("apiGroup"), ref.APIGroup, consumerAPIGroupRules),
		kind:      c.text(path.Child("kind"), ref.Kind, consumerKindRules),
		name:      c.text(path.Child("name"), ref.Name, consumerNameRules),
		namespace: c.text(path.Child("namespace"), ref.Namespace, consumerNamespaceRules),
	}
}

// allowances rejects templates in allowances.
func (c *grantCompiler) allowances(path *field.Path, allowances []quotav1alpha1.Allowance) []quotav1alpha1.Allowance {
	copied := make([]quotav1alpha1.Allowance, len(allowances))
	for i := range allowances {
		if resourceType := allowances[i].ResourceType; strings.Contains(resourceType, "{{") {
			c.addError(field.Invalid(path.Index(i).Child("resourceType"), resourceType,
				"may not be a template: the registration of a resource type is checked before there are objects"))
		}
		allowances[i].DeepCopyInto(&copied[i])
		copied[i].Truncate()
	}
	return copied
}

// notSeen is the error for a variable that only a request has.
const notSeen = "a GrantCreationPolicy does not see %s here: it applies to an object, and sees trigger and object"

// nameExpression is a CEL expression that yields the name of a control plane.
type nameExpression struct{ expression }

func (c *grantCompiler) parentName(path *field.Path, source string) *nameExpression {
	if strings.TrimSpace(source) == "" {
		c.addError(field.Required(path, "write a CEL expression that yields the name of the control plane"))
		return nil
	}
	if len([]rune(source)) > nameExpressionCharsMax {
		c.addError(field.TooLongCharacters(path, source, nameExpressionCharsMax))
		return nil
	}
	c.note(source)
	compiled, errs := compileExpression(objectEnv, seesTrigger, path, source, "a name must be a string", cel.StringType, cel.DynType)
	c.errs = append(c.errs, errs...)
	if compiled == nil {
		return nil
	}
	c.rejectVariables(path, source, compiled.uses, notSeen, varNamespace)
	return &nameExpression{*compiled}
}

// Matches reports whether all conditions of the policy hold for an object. It behaves as [ClaimPolicy.Matches].
func (p *GrantPolicy) Matches(ctx context.Context, object map[string]any) (bool, error) {
	in := Input{Object: object}
	return allHold(ctx, p.conditions, in.variables())
}

// ParentName returns the name of the control plane for an object's grant, and "" for the policy's own.
func (p *GrantPolicy) ParentName(ctx context.Context, object map[string]any) (string, error) {
	if p.parentName == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, policyTimeMax, errTakesTooLong)
	defer cancel()
	in := Input{Object: object}
	value, _, err := p.parentName.evaluate(ctx, in.variables())
	if err != nil {
		return "", err
	}
	name, ok := value.(types.String)
	switch {
	case !ok:
		return "", p.parentName.failed(fmt.Errorf("it yields %s, not a string", value.Type().TypeName()))
	case name == "":
		return "", p.parentName.failed(fmt.Errorf("it yields an empty string, which names no control plane"))
	case len(name) > nameBytesMax:
		return "", p.parentName.failed(fmt.Errorf("it yields a string of more than %d bytes, which names no control plane", nameBytesMax))
	}
	return string(name), nil
}

// Render makes the grant for an object: kind, name, namespace, labels, annotations and spec. Names and the caller's
// part are as with [ClaimPolicy.Render]; allowances are those of the template. The error names the first failed field,
// with the position in its template.
func (p *GrantPolicy) Render(object map[string]any) (*quotav1alpha1.ResourceGrant, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), policyTimeMax, errTakesTooLong)
	defer cancel()
	in := Input{Object: object}
	r := rendering{variables: in.variables()}
	grant := &quotav1alpha1.ResourceGrant{
		TypeMeta:   metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceGrant"},
		ObjectMeta: r.metadata(ctx, &p.metadataFields),
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: r.consumer(ctx, &p.consumer),
			Allowances:  make([]quotav1alpha1.Allowance, len(p.allowances)),
			Period:      *p.period.DeepCopy(),
		},
	}
	for i := range p.allowances {
		p.allowances[i].DeepCopyInto(&grant.Spec.Allowances[i])
	}
	if r.err != nil {
		return nil, r.err
	}
	return grant, nil
}
