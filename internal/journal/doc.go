// Package journal is the record of who had what, when, and by whom: one [Entry] for each change of a limit and of use.
//
// A ledger writes its entries together with the changes that they record, and keeps them until a sink has them:
// see [github.com/bursar/bursar/internal/ledger.Journal]. So a crash loses none. A sink may get an entry twice, under the
// same number, and a [Source] yields it once.
//
// This package has the entry, its form as a CloudEvent, and the interfaces of sinks and sources. Any package may import
// it.
package journal
