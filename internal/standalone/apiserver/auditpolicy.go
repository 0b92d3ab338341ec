package apiserver

import (
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// auditPolicy selects the requests whose end the operator learns: those with a review by its webhooks. The operator
// writes ledgers and claims many times a second, without reviews.
type auditPolicy struct{}

// EvaluatePolicyRule implements [audit.PolicyRuleEvaluator].
func (auditPolicy) EvaluatePolicyRule(request authorizer.Attributes) audit.RequestAuditConfig {
	isWrite := false
	switch request.GetVerb() {
	case "create", "update", "patch":
		isWrite = request.IsResourceRequest()
	}
	if user := request.GetUser(); !isWrite || user != nil && user.GetName() == OperatorUser {
		return audit.RequestAuditConfig{Level: auditinternal.LevelNone}
	}
	return audit.RequestAuditConfig{
		Level:      auditinternal.LevelMetadata,
		OmitStages: []auditinternal.Stage{auditinternal.StageRequestReceived, auditinternal.StageResponseStarted},
	}
}
