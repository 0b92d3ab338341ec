package tidy

// functionFields are function-valued fields with a good reason. Add one only with a reason as good.
var functionFields = map[string]string{

	"internal/standalone.Options.OnServing": "an event hook of the command line, which prints and remembers the kubeconfig",

	"internal/allocation/allocationstore/storagetest.Memory.Fail": "each test has failures of its own",
	"internal/ledger/ledgerstore/storagetest.Memory.Accepts":      "each test has refusals of its own",
}
