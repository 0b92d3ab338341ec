package policy

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// Input is the input of a policy for one request. Policies only read it.
type Input struct {
	// Object is the object under admission as decoded from JSON: maps, lists, strings, booleans, int64 and float64.
	// Policies see it as trigger and as object.
	Object map[string]any
	// WithoutRequest means that there is no request: User and RequestInfo are empty. Render then omits annotations with
	// templates that use them.
	WithoutRequest bool
	// User is the user of the request. Policies see it as user.
	User UserInfo
	// RequestInfo describes the request. Policies see it as requestInfo.
	RequestInfo RequestInfo
	// NamespaceObject is the namespace of the object, in the same form as Object: its metadata at least. Policies see
	// it as namespaceObject. It is nil for cluster-scoped objects, including Namespaces, and then its fields are
	// missing.
	NamespaceObject map[string]any
	// Units has the base units for the conversion of quantities. Default: no conversion.
	Units Units
}

// Units has the base units of resource types.
type Units interface {
	// BaseUnit returns the base unit of a resource type, or "" for no conversion.
	BaseUnit(resourceType string) string
}

// UserInfo is the authenticated user of a request.
type UserInfo struct {
	// Name (user.name) is unique among the users at one time, such as jane or system:serviceaccount:web:deployer.
	Name string
	// UID (user.uid) distinguishes users with the same name at different times. It may be empty.
	UID string
	// Groups (user.groups) are the groups of the user.
	Groups []string
	// Extra (user.extra) are further attributes from the authenticator.
	Extra map[string][]string
}

// RequestInfo describes a request to the API server.
type RequestInfo struct {
	// Verb (requestInfo.verb) is the kind of request in lower case, such as create.
	Verb string
	// APIGroup (requestInfo.apiGroup) is the API group of the resource, empty for the core group.
	APIGroup string
	// APIVersion (requestInfo.apiVersion) is the version within the group, such as v1.
	APIVersion string
	// Resource (requestInfo.resource) is the plural resource name, such as configmaps.
	Resource string
	// Subresource (requestInfo.subresource) is empty for requests on the object itself.
	Subresource string
	// Namespace (requestInfo.namespace) is empty for cluster-scoped resources.
	Namespace string
	// Name (requestInfo.name) may be empty while a name is still to be generated.
	Name string
}

// The variables of conditions and templates.
const (
	varTrigger     = "trigger"
	varObject      = "object"
	varUser        = "user"
	varRequestInfo = "requestInfo"
	varNamespace   = "namespaceObject"
)

// variableFields lists the variables, each with its fields, or nil if it can have any. It agrees with
// [Input.variables].
var variableFields = map[string][]string{
	varTrigger:     nil,
	varObject:      nil,
	varUser:        {"name", "uid", "groups", "extra"},
	varNamespace:   nil,
	varRequestInfo: {"verb", "apiGroup", "apiVersion", "resource", "subresource", "namespace", "name"},
}

// variables returns the input as conditions and templates see it.
func (in *Input) variables() map[string]any {
	extra := make(map[string]any, len(in.User.Extra))
	for key, values := range in.User.Extra {
		extra[key] = listOf(values)
	}
	object := Visible(in.Object)
	return map[string]any{
		varTrigger:   object,
		varObject:    object,
		varNamespace: in.NamespaceObject,
		varUser: map[string]any{
			"name":   in.User.Name,
			"uid":    in.User.UID,
			"groups": listOf(in.User.Groups),
			"extra":  extra,
		},
		varRequestInfo: map[string]any{
			"verb":        in.RequestInfo.Verb,
			"apiGroup":    in.RequestInfo.APIGroup,
			"apiVersion":  in.RequestInfo.APIVersion,
			"resource":    in.RequestInfo.Resource,
			"subresource": in.RequestInfo.Subresource,
			"namespace":   in.RequestInfo.Namespace,
			"name":        in.RequestInfo.Name,
		},
	}
}

// Visible returns the part of an object for policies. Of a Secret policies see only its metadata and type: the results
// of a policy are visible to people without permission to read Secrets, including the author of the policy.
func Visible(object map[string]any) map[string]any {
	if object["kind"] != "Secret" || object["apiVersion"] != "v1" {
		return object
	}
	object = maps.Clone(object)
	maps.DeleteFunc(object, func(field string, _ any) bool {
		return field != "apiVersion" && field != "kind" && field != "metadata" && field != "type"
	})
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if _, ok := annotations[corev1.LastAppliedConfigAnnotation]; ok {
		metadata, annotations = maps.Clone(metadata), maps.Clone(annotations)
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		metadata["annotations"], object["metadata"] = annotations, metadata
	}
	return object
}

func listOf(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}
