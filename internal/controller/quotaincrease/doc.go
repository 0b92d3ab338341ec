// Package quotaincrease generates the ResourceQuota of each namespace from QuotaServiceConfigs and the QuotaIncreases
// in the namespace, and reports its composition.
//
// Its unit of work is a namespace. A reconcile chooses the definition (choose.go) among the valid ones
// (definitions.go). Package increase composes the ResourceQuota. The reconcile writes it, holding back as much as caps
// require (fit.go, holdback.go), and then reconciles the namespace, former ResourceQuotas and the increases. So it
// removes nothing before its successor exists. It undoes edits and deletions by others at once, up to a rate
// (restorelimiter.go). A second reconciler validates the definitions, and writes the outcomes of all namespaces into
// the status of the QuotaServiceConfigs (status.go).
//
// Only the operator and tests import it.
package quotaincrease
