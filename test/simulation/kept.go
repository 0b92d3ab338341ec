package simulation

// Kept are seeds with a past mistake in Bursar, now mended. The worlds of a seed change with this package, so the
// mistakes are also among the faults planted by command simulate.
//
//   - 346: a claim that waited for a release left the line when its decision failed, and never got a decision.
var Kept = []uint64{346}
