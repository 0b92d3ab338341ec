package simulation

// Kept are seeds that have found a mistake in Bursar, which is mended. The worlds of a seed change with this package:
// so the mistakes are also among the faults that command simulate plants.
//
//   - 346: a claim that waited for a release left the line when its decision failed, and was never decided.
var Kept = []uint64{346}
