package simulation

// Kept are seeds that have found a mistake in Bursar, which is mended:
//
//   - 346: a claim that waited for a release left the line when its decision failed, and was never decided.
var Kept = []uint64{346}
