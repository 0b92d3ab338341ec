package tidy

// functionFields are function-valued fields that are the best shape. Add one only with a reason that holds.
var functionFields = map[string]string{
	"internal/ledger/ledgerstore.Request.Verify": "an argument of one call, which its caller writes in place",
	"internal/ledger/ledgerstore.Request.Extend": "as Verify",

	"internal/standalone.Options.OnServing": "an event hook of the command line, which prints and remembers the kubeconfig",

	"internal/allocation/allocationstore/storagetest.Memory.Fail": "each test has failures of its own",
	"internal/ledger/ledgerstore/storagetest.Memory.Accepts":      "each test has refusals of its own",
}

// longFunctions are to be split. None may join them.
var longFunctions = map[string]string{
	"cmd/bursar/settings.go loadSettings":                                 "to be split",
	"internal/config/validate.go Webhooks.check":                          "to be split",
	"internal/controller/grantpolicy/evaluate.go Controller.settle":       "to be split",
	"internal/controller/grantpolicy/reconcile.go Controller.inspect":     "to be split",
	"internal/controller/grantpolicy/reconcile.go Controller.letGo":       "to be split",
	"internal/controller/quotaincrease/reconcile.go Reconciler.reconcile": "to be split",
	"internal/increase/say.go Result.compositionOf":                       "to be split",
	"internal/ledger/model/amend.go Model.amend":                          "to be split",
	"internal/policy/arithmetic.go arithmeticCall.Eval":                   "to be split",
	"internal/usage/report.go reader.readHidden":                          "to be split",
}

// longFiles are to be split. None may join them.
var longFiles = map[string]string{
	"internal/cli/status/status.go":            "to be split",
	"internal/ledger/ledgerstore/committer.go": "to be split",
}
