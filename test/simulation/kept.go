package simulation

// Kept are seeds of past mistakes in Bursar, all mended now. The worlds of a seed change with this
// package, so the mistakes are also among the faults planted by command simulate.
//
//   - 346: a claim that waited for a release left the line when its decision failed, and never got a decision.
var Kept = []uint64{346}
