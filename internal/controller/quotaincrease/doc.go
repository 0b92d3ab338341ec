// Package quotaincrease gives each namespace the ResourceQuota that the QuotaServiceConfigs and the
// QuotaIncreases in it make up, and says what it is made of.
//
// Its unit of work is a namespace. The definition that is for it is found (choose.go) among those that are known to be
// valid (definitions.go), what it and the increases make up is worked out by package increase and written, with as
// much held back as caps make necessary (fit.go, holdback.go), and then the namespace, former ResourceQuotas and the
// increases are brought in line. So nothing is taken away before its successor is there. What was edited or deleted by
// others is restored as soon as it is seen, but not without end (restorelimiter.go). What became of each namespace is
// remembered, and a second reconciler, which also finds out which definitions are usable, tells it in the status of
// the QuotaServiceConfigs (status.go).
package quotaincrease
