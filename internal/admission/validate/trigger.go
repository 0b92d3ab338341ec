package validate

import (
	"regexp"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

var apiVersionPattern = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?v[0-9]+((alpha|beta)[0-9]*)?$`)

const (
	isQuestion = "the API server answers objects of this API group and does not store them"
	isEvent    = "events must be recorded regardless of quota"
)

// groupsWithoutPolicy are the API groups with kinds forbidden to policies, and the reasons.
var groupsWithoutPolicy = map[string]string{
	quotav1alpha1.GroupName: "Bursar's own kinds cannot be subject to its policies",
	"coordination.k8s.io":   "leases keep the control plane alive and must not depend on quota",
	"events.k8s.io":         isEvent,
	"admission.k8s.io":      isQuestion,
	"authentication.k8s.io": isQuestion,
	"authorization.k8s.io":  isQuestion,
}

// groupsWithoutWebhooks are the API groups without calls of webhooks by the API server. A policy could not deny
// anything of them.
var groupsWithoutWebhooks = map[string]string{
	"admissionregistration.k8s.io": "the API server asks no webhook about kinds of this API group, so quota cannot be enforced",
}

// checkTrigger checks that a policy names a permitted kind. excluded has API groups with the reason for their
// exclusion. It excludes events too.
func checkTrigger(path *field.Path, apiVersion, kind string, excluded ...map[string]string) field.ErrorList {
	var errs field.ErrorList
	if !apiVersionPattern.MatchString(apiVersion) {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), apiVersion, "must be an API group and version, such as apps/v1, or v1 for the core group"))
	}
	errs = append(errs, checkKind(path.Child("kind"), kind)...)
	group := schema.FromAPIVersionAndKind(apiVersion, kind).Group
	for _, reasons := range excluded {
		if reason, ok := reasons[group]; ok {
			errs = append(errs, field.Forbidden(path, reason))
		}
	}
	if group == "" && kind == "Event" {
		errs = append(errs, field.Forbidden(path, isEvent))
	}
	return errs
}
