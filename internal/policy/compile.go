package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// ClaimPolicy is a compiled ClaimCreationPolicy. It is immutable and safe for concurrent use.
type ClaimPolicy struct {
	conditions []*condition
	metadataFields
	consumer consumerFields
	// paysParent is set if there is no consumer in the template, see [parentOf].
	paysParent     bool
	requests       []requestFields
	usesNamespace  bool
	usesRequest    bool
	countsObjects  bool
	followsUpdates bool
}

// metadataFields are the metadata fields of the object that a policy makes.
type metadataFields struct {
	name, generateName, namespace templateField
	// defaultPrefix is the prefix of a name that the template does not determine.
	defaultPrefix string
	labels        map[string]string
	annotations   []keyedField
}

// UsesNamespace reports whether the policy reads [Input.NamespaceObject]. Otherwise the field may be empty.
func (p *ClaimPolicy) UsesNamespace() bool { return p.usesNamespace }

// UsesRequest reports whether the policy's demand depends on the user or the request. Then the demand of an existing
// object is unknown.
func (p *ClaimPolicy) UsesRequest() bool { return p.usesRequest }

// CountsObjects reports whether the objects themselves count: what the policy demands follows from object and
// namespace. Otherwise only the claim of an object says what its create demanded.
func (p *ClaimPolicy) CountsObjects() bool { return p.countsObjects }

// annotatesRequest reports whether an annotation of the claims has something of the user or the request.
func (p *ClaimPolicy) annotatesRequest() bool {
	return slices.ContainsFunc(p.annotations, keyedField.usesRequest)
}

// FollowsUpdates reports whether the policy applies to changes of an object too. Its demand then depends only on the
// object and its namespace.
func (p *ClaimPolicy) FollowsUpdates() bool { return p.followsUpdates }

// consumerFields are the fields of the consumer reference.
type consumerFields struct{ apiGroup, kind, name, namespace templateField }

// requestFields are the fields of one request.
type requestFields struct {
	resourceType string
	// amount is fixed, or 0 if there is an expression.
	amount     int64
	expression *amountExpression
	dimensions []keyedField
}

// keyedField is an entry of a map: a key as written, and a value with or without a template.
type keyedField struct {
	key   string
	value templateField
}

// usesRequest reports whether the value has something of the user or the request.
func (f keyedField) usesRequest() bool {
	return f.value.template != nil && f.value.template.uses.has(varUser, varRequestInfo)
}

// reservedKeys are the labels and annotations that Bursar sets itself. A template may have them, as templates of other
// systems do, but their values have no effect. Other keys of this domain are free for users.
var reservedKeys = sets.New(
	quotav1alpha1.LabelAutoCreated,
	quotav1alpha1.LabelPolicy,
	quotav1alpha1.LabelView,
	quotav1alpha1.LabelPolicyUID,
	quotav1alpha1.LabelGVK,
	quotav1alpha1.AnnotationCreatedBy,
	quotav1alpha1.AnnotationCreatedAt,
	quotav1alpha1.AnnotationResourceName,
	quotav1alpha1.AnnotationResourceUID,
	quotav1alpha1.AnnotationSuperseded,
	quotav1alpha1.AnnotationTemplateKeys,
	quotav1alpha1.AnnotationParentContext,
)

// IsReserved reports whether only Bursar sets a label or annotation on the objects that policies make.
func IsReserved(key string) bool { return reservedKeys.Has(key) }

// Compile checks a policy as far as possible without objects or registrations. It returns either a policy or all
// errors, each under its field. Errors in expressions and templates begin with their position (line:column, or "line N"
// for a syntax error in a template).
//
// Compile ignores the template's resourceRef: the claim always refers to the object itself.
func Compile(policy *quotav1alpha1.ClaimCreationPolicy) (*ClaimPolicy, field.ErrorList) {
	followsUpdates := slices.Contains(policy.Spec.Trigger.Operations, quotav1alpha1.TriggerOperationUpdate)
	withoutClaims := policy.Spec.Claims == quotav1alpha1.ClaimsModeNone
	c := &compiler{sees: seesRequest, bound: boundOf(followsUpdates, withoutClaims)}
	spec := field.NewPath("spec")
	template := policy.Spec.Target.ResourceClaimTemplate
	at := spec.Child("target", "resourceClaimTemplate")
	p := &ClaimPolicy{metadataFields: metadataFields{defaultPrefix: policy.Name + "-"}}

	p.conditions = c.conditions(spec.Child("trigger"), policy.Spec.Trigger.Conditions, policy.Spec.Trigger.Constraints)
	c.metadata(at.Child("metadata"), template.Metadata, p)
	if p.paysParent = template.Spec.ConsumerRef == (quotav1alpha1.ConsumerRef{}); p.paysParent {
		c.parentPays(at.Child("spec", "consumerRef"))
	} else {
		p.consumer = c.consumer(at.Child("spec", "consumerRef"), template.Spec.ConsumerRef)
	}
	p.requests = c.requests(at.Child("spec", "requests"), template.Spec.Requests)
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	p.usesNamespace, p.usesRequest, p.followsUpdates = c.usesNamespace, c.usesRequest, followsUpdates
	p.countsObjects = c.bound != nil || !c.usesRequest && !p.annotatesRequest()
	return p, nil
}

// compiler collects the errors of a policy, and whether it uses the namespace and the request.
type compiler struct {
	// sees names the variables of conditions.
	sees          string
	errs          field.ErrorList
	usesNamespace bool
	usesRequest   bool
	// bound is set if the demand may depend only on the object and its namespace.
	bound *objectBound
}

// objectBound says why the demand of a policy may depend only on the object and its namespace.
type objectBound struct{ policies, reason string }

// boundOf returns the bound on the demand of a policy, or nil if its demand may depend on the request.
func boundOf(followsUpdates, withoutClaims bool) *objectBound {
	switch {
	case withoutClaims:
		return &objectBound{"a policy with spec.claims None", "its demand must depend only on the object as it is, and not on the request that created it"}
	case followsUpdates:
		return &objectBound{"a policy with the operation UPDATE", "its demand must depend only on the object, and not on the user of a change"}
	default:
		return nil
	}
}

func (c *compiler) addError(err *field.Error) { c.errs = append(c.errs, err) }

// note records whether an expression or template may use the namespace. A false positive, in a text, does no harm.
func (c *compiler) note(source string) {
	c.usesNamespace = c.usesNamespace || strings.Contains(source, varNamespace)
}

// checkRequestUse records the use of the request, and rejects it in a policy that follows updates or counts the objects
// themselves. Its demand must be the same for every user who changes the object, and known without a request.
func (c *compiler) checkRequestUse(path *field.Path, source string, read uses) {
	c.usesRequest = c.usesRequest || read.has(varUser, varRequestInfo)
	if c.bound != nil {
		c.rejectVariables(path, source, read, c.bound.policies+" may not use %s here: "+c.bound.reason, varUser, varRequestInfo)
	}
}

// rejectVariables adds an error for each variable in names that a source reads. sentence is a format for the name.
func (c *compiler) rejectVariables(path *field.Path, source string, read uses, sentence string, names ...string) {
	for _, name := range names {
		if at, ok := read[name]; ok {
			c.addError(field.Invalid(path, excerpt(source), fmt.Sprintf("%v: "+sentence, at, name)))
		}
	}
}

// conditions compiles the conditions of a trigger, and its constraints, which are further conditions.
func (c *compiler) conditions(trigger *field.Path, conditions, constraints []quotav1alpha1.ConditionExpression) []*condition {
	if count := len(conditions) + len(constraints); count > conditionsMax {
		at := trigger.Child("conditions")
		if len(conditions) <= conditionsMax && len(constraints) > 0 {
			at = trigger.Child("constraints")
		}
		c.addError(field.TooMany(at, count, conditionsMax))
		return nil
	}
	var compiled []*condition
	for i, expression := range conditions {
		compiled = append(compiled, c.condition(trigger.Child("conditions").Index(i).Child("expression"), expression.Expression))
	}
	for i, expression := range constraints {
		compiled = append(compiled, c.condition(trigger.Child("constraints").Index(i).Child("expression"), expression.Expression))
	}
	return compiled
}

func (c *compiler) condition(path *field.Path, expression string) *condition {
	c.note(expression)
	compiled, errs := compileCondition(path, expression, c.sees)
	c.errs = append(c.errs, errs...)
	if compiled != nil {
		c.checkRequestUse(path, expression, compiled.uses)
	}
	return compiled
}

func (c *compiler) field(path *field.Path, source string, rules fieldRules) templateField {
	c.note(source)
	compiled, errs := compileField(path, source, rules)
	c.errs = append(c.errs, errs...)
	if compiled.template != nil && !rules.mayVary {
		c.checkRequestUse(path, source, compiled.template.uses)
	}
	return compiled
}

func (c *compiler) metadata(path *field.Path, metadata quotav1alpha1.ObjectTemplateMetadata, p *ClaimPolicy) {
	p.name = c.field(path.Child("name"), metadata.Name, nameRules)
	p.generateName = c.field(path.Child("generateName"), metadata.GenerateName, generateNameRules)
	p.namespace = c.field(path.Child("namespace"), metadata.Namespace, namespaceRules)
	p.labels = c.labels(path.Child("labels"), metadata.Labels)
	p.annotations = c.annotations(path.Child("annotations"), metadata.Annotations)
}

func (c *compiler) labels(path *field.Path, labels map[string]string) map[string]string {
	c.errs = append(c.errs, metav1validation.ValidateLabels(labels, path)...)
	size := 0
	for key, value := range labels {
		size += len(key) + len(value)
	}
	if size > labelsBytesMax {
		c.addError(field.TooLong(path, "", labelsBytesMax))
	}
	labels = maps.Clone(labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return IsReserved(key) })
	return labels
}

// annotations counts only sizes known before rendering towards the limit.
func (c *compiler) annotations(path *field.Path, annotations map[string]string) []keyedField {
	var fields []keyedField
	size := 0
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if IsReserved(key) {
			continue
		}
		for _, reason := range validation.IsQualifiedName(strings.ToLower(key)) {
			c.addError(field.Invalid(path, key, reason))
		}
		value := c.field(path.Key(key), annotations[key], annotationRules)
		fields = append(fields, keyedField{key, value})
		size += len(key)
		if value.template != nil && value.template.isText() {
			size += len(annotations[key])
		}
	}
	if size > annotationsBytesMax {
		c.addError(field.TooLong(path, "", annotationsBytesMax))
	}
	return fields
}

func (c *compiler) consumer(path *field.Path, ref quotav1alpha1.ConsumerRef) consumerFields {
	return consumerFields{
		apiGroup:  c.field(path.Child("apiGroup"), ref.APIGroup, consumerAPIGroupRules),
		kind:      c.field(path.Child("kind"), ref.Kind, consumerKindRules),
		name:      c.field(path.Child("name"), ref.Name, consumerNameRules),
		namespace: c.field(path.Child("namespace"), ref.Namespace, consumerNamespaceRules),
	}
}

// requests compiles 1 to 20 requests, each of another resource type. Types are fixed; amounts may be expressions, and
// the values of dimensions templates.
func (c *compiler) requests(path *field.Path, requests []quotav1alpha1.ResourceRequestTemplate) []requestFields {
	switch {
	case len(requests) == 0:
		c.addError(field.Required(path, "a claim requests at least one resource type"))
	case len(requests) > requestsMax:
		c.addError(field.TooMany(path, len(requests), requestsMax))
		return nil
	}
	seen := sets.New[string]()
	var fields []requestFields
	for i, request := range requests {
		at := path.Index(i)
		c.resourceType(at.Child("resourceType"), request.ResourceType, seen)
		fields = append(fields, requestFields{
			resourceType: request.ResourceType,
			amount:       request.Amount,
			expression:   c.amount(at, request),
			dimensions:   c.dimensions(at.Child("dimensions"), request.Dimensions),
		})
	}
	return fields
}

// amount checks that a request has either a fixed amount or an expression, and compiles the expression.
func (c *compiler) amount(path *field.Path, request quotav1alpha1.ResourceRequestTemplate) *amountExpression {
	if request.AmountExpression == "" {
		if request.Amount <= 0 {
			c.addError(field.Invalid(path.Child("amount"), request.Amount, "must be greater than 0"))
		}
		return nil
	}
	at := path.Child("amountExpression")
	if request.Amount != 0 {
		c.addError(field.Forbidden(at, "give either amount or amountExpression"))
	}
	c.note(request.AmountExpression)
	compiled, errs := compileAmount(at, request.AmountExpression)
	c.errs = append(c.errs, errs...)
	return compiled
}

func (c *compiler) resourceType(path *field.Path, resourceType string, seen sets.Set[string]) {
	switch {
	case resourceType == "":
		c.addError(field.Required(path, "a request names a resource type"))
	case strings.Contains(resourceType, "{{"):
		c.addError(field.Invalid(path, resourceType, "may not be a template: the registration of a resource type is checked before there are objects"))
	case seen.Has(resourceType):
		c.addError(field.Duplicate(path, resourceType))
	}
	seen.Insert(resourceType)
}

func (c *compiler) dimensions(path *field.Path, dimensions map[string]string) []keyedField {
	if len(dimensions) > dimensionsMax {
		c.addError(field.TooMany(path, len(dimensions), dimensionsMax))
		return nil
	}
	var fields []keyedField
	for _, key := range slices.Sorted(maps.Keys(dimensions)) {
		if len(key) > dimensionKeyBytesMax {
			c.addError(field.Invalid(path, key, fmt.Sprintf("may not have a key of more than %d bytes", dimensionKeyBytesMax)))
		}
		fields = append(fields, keyedField{key, c.field(path.Key(key), dimensions[key], dimensionRules)})
	}
	return fields
}
