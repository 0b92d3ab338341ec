// Package journal is the record of quota: one [Entry] for each change of a limit and of use, with its time and its
// user.
//
// A ledger writes its entries together with the recorded changes, and keeps them until a sink has them: see
// [github.com/bursar/bursar/internal/ledger.Journal]. So a crash loses none. A sink may get an entry twice, under the
// same number, and a [Source] yields it once.
//
// This package has the entry, its form as a CloudEvent, and the interfaces of sinks and sources. Any package may
// import it.
package journal
