package policy

import (
	"fmt"
	"strings"
)

// The variables of expressions, as errors name them.
const (
	seesRequest = "trigger, object, namespaceObject, user and requestInfo"
	seesObject  = "trigger, object and namespaceObject"
	seesTrigger = "trigger and object"
)

// commonNames maps names from other systems to variables.
var commonNames = map[string]string{
	"self": varObject, "resource": varObject, "obj": varObject, "oldObject": varObject,
	"request": varRequestInfo, "userInfo": varUser, "namespace": varNamespace, "ns": varNamespace,
}

// explain completes an error of CEL with the variables of an expression, and with a suggestion.
func explain(message, source, sees string) string {
	name, isReference := strings.CutPrefix(message, "undeclared reference to '")
	if !isReference {
		if strings.Contains(source, "{{") {
			return message + "; this is CEL, which has no {{ }}: write trigger.metadata.name, for example"
		}
		return message
	}
	name, _, _ = strings.Cut(name, "'")
	message = fmt.Sprintf("undeclared reference to '%s'", name)
	if strings.Contains(source, name+"(") {
		return message
	}
	message += "; this expression sees " + sees
	if variable := similarVariable(name); variable != "" && strings.Contains(sees, variable) && variable != name {
		message += fmt.Sprintf("; did you mean %s?", variable)
	}
	return message
}

// similarVariable returns the likely meaning of a variable's name, or "".
func similarVariable(name string) string {
	if variable, ok := commonNames[name]; ok {
		return variable
	}
	for variable := range variableFields {
		if strings.EqualFold(variable, name) || strings.EqualFold(variable, strings.TrimSuffix(name, "s")) {
			return variable
		}
	}
	return ""
}
