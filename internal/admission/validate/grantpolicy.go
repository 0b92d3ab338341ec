package validate

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	conditionsMax               = 10
	conditionCharactersMax      = 1024
	nameExpressionCharactersMax = 512
)

// ConditionCompiler tells everything that is wrong with the CEL expression of a condition, which
// is at path.
type ConditionCompiler func(path *field.Path, expression string) field.ErrorList

// GrantPolicy tells everything that is wrong with a policy that is created (old is nil) or
// changed. compile is for its conditions.
func GrantPolicy(old, new *quotav1alpha1.GrantCreationPolicy, compile ConditionCompiler) field.ErrorList {
	if old != nil && equality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return nil
	}
	path := field.NewPath("spec")
	trigger := path.Child("trigger")
	resource := new.Spec.Trigger.Resource
	errs := checkTrigger(trigger.Child("resource"), resource.APIVersion, resource.Kind, groupsWithoutPolicy)
	errs = append(errs, checkConditions(trigger.Child("conditions"), new.Spec.Trigger.Conditions, compile)...)
	target := path.Child("target")
	if parent := new.Spec.Target.ParentContext; parent != nil {
		errs = append(errs, checkParentContext(target.Child("parentContext"), parent)...)
	}
	spec := target.Child("resourceGrantTemplate", "spec")
	grant := &new.Spec.Target.ResourceGrantTemplate.Spec
	errs = append(errs, checkAllowances(spec.Child("allowances"), grant.Allowances)...)
	return append(errs, checkTemplateReference(spec.Child("consumerRef"), grant.ConsumerRef)...)
}

func checkConditions(path *field.Path, conditions []quotav1alpha1.ConditionExpression, compile ConditionCompiler) field.ErrorList {
	var errs field.ErrorList
	if len(conditions) > conditionsMax {
		errs = append(errs, field.TooMany(path, len(conditions), conditionsMax))
		conditions = conditions[:conditionsMax]
	}
	for i, condition := range conditions {
		at := path.Index(i).Child("expression")
		wrong := checkExpression(at, condition.Expression, conditionCharactersMax)
		if wrong == nil {
			wrong = compile(at, condition.Expression)
		}
		errs = append(errs, wrong...)
	}
	return errs
}

func checkParentContext(path *field.Path, parent *quotav1alpha1.ParentContext) field.ErrorList {
	errs := checkGroup(path.Child("apiGroup"), parent.APIGroup)
	errs = append(errs, checkKind(path.Child("kind"), parent.Kind)...)
	return append(errs, checkExpression(path.Child("nameExpression"), parent.NameExpression, nameExpressionCharactersMax)...)
}

func checkExpression(path *field.Path, expression string, charactersMax int) field.ErrorList {
	switch {
	case strings.TrimSpace(expression) == "":
		return field.ErrorList{field.Required(path, "write a CEL expression")}
	case utf8.RuneCountInString(expression) > charactersMax:
		return field.ErrorList{field.TooLongCharacters(path, expression, charactersMax)}
	}
	return nil
}

// checkTemplateReference checks the parts of a reference that hold no Go template; what the
// others become is not known yet.
func checkTemplateReference(path *field.Path, ref quotav1alpha1.ConsumerRef) field.ErrorList {
	var errs field.ErrorList
	check := func(name, value string, check func(*field.Path, string) field.ErrorList) {
		if !strings.Contains(value, "{{") {
			errs = append(errs, check(path.Child(name), value)...)
		}
	}
	check("apiGroup", ref.APIGroup, checkGroup)
	check("kind", ref.Kind, checkKind)
	check("name", ref.Name, checkName)
	check("namespace", ref.Namespace, checkNamespace)
	return errs
}
