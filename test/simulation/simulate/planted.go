package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// fault is a mistake in one place of Bursar's code.
type fault struct {
	// what describes the fault. In the file, after replaces before.
	what, file, before, after string
	// test names the test that finds it. Default: a seed finds it.
	test string
}

const (
	storeDir  = "internal/ledger/ledgerstore/"
	engineDir = "internal/claims/engine/"
)

// faults are possible mistakes. A seed or a named test must find each.
var faults = []fault{
	{
		what: "a conflicting write counts as written", file: storeDir + "storedcopy.go",
		before: "\tif err == nil {\n\t\tc.isFresh, c.unknown = true, 0",
		after:  "\tif err == nil || errors.Is(err, ErrConflict) {\n\t\tc.isFresh, c.unknown = true, 0",
	},
	{
		what: "after an unknown outcome the copy goes on as written", file: storeDir + "storedcopy.go",
		before: "\tc.ledger = nil\n\tfailed :=",
		after:  "\tfailed :=",
	},
	{
		what: "a denial has no second read", file: storeDir + "storedcopy.go",
		before: "\tif version != c.version {\n\t\tc.ledger = nil\n\t\treturn groupcommit.ErrAgain\n\t}\n\tc.isFresh = true",
		after:  "\tc.isFresh = version != \"\"",
	},
	{
		what: "a read of the slice forgets a late write of this process", file: storeDir + "storedcopy.go",
		before: "c.mayLand && version == c.unanswered)\n\tc.mayLand",
		after:  "false)\n\tc.mayLand",
		test:   "./internal/ledger/ledgerstore TestEscrow$",
	},
	{
		what: "nobody looks for a late write", file: storeDir + "storedcopy.go",
		before: "\t\t\tif c.mayLand {\n\t\t\t\ttime.AfterFunc",
		after:  "\t\t\tif false {\n\t\t\t\ttime.AfterFunc",
		test:   "./internal/ledger/ledgerstore TestLateWriteIsFound",
	},
	{
		what: "a slice counts for ever without a confirmation", file: storeDir + "escrow.go",
		before: "return now.Sub(e.confirmed) < sliceLease && 0 <= wall && wall < sliceLease",
		after:  "return now.Sub(e.confirmed) >= 0 || wall < sliceLease",
		test:   "./internal/ledger/ledgerstore TestEscrow$",
	},
	{
		what: "an admission does not count against the slice", file: storeDir + "escrow.go",
		before: "\tfor i := range reservations {\n\t\te.unrecorded = e.unrecorded.add(e.enforced(reservations[i].Charges), 1)\n\t}\n\te.count",
		after:  "\te.count",
	},
	{
		what: "a repeated review gets a second admission", file: storeDir + "inflight.go",
		before: "if slices.ContainsFunc(reservations, func(r ledger.Reservation) bool { return known[r.Key].Key != \"\" }) {",
		after:  "if len(known) < 0 {",
		test:   "./internal/ledger/ledgerstore TestRepeatedReviewIsNotEscrowed",
	},
	{
		what: "a revoked slice still admits", file: storeDir + "escrow.go",
		before: "if !ok || s.IsRevoked {\n\t\treturn\n\t}\n\tif mayChange",
		after:  "if !ok {\n\t\treturn\n\t}\n\tif mayChange",
		test:   "./internal/ledger/ledgerstore TestForeignSlices",
	},
	{
		what: "the store drops an admission instead of recording it", file: storeDir + "record.go",
		before: "effect, isOver = c.recordAwaiting(l, r)",
		after:  "isOver = true",
	},
	{
		what: "the slice shrinks below its admissions", file: storeDir + "escrow.go",
		before: "return max(0, e.unrecorded[resourceType]-e.recording[resourceType])",
		after:  "return max(0, 0*e.unrecorded[resourceType])",
		test:   "./internal/ledger/ledgerstore TestEscrow$",
	},
	{
		what: "an admission has a record and counts in the slice as well", file: storeDir + "slicesize.go",
		before: "e.covered[resourceType] = min(amount, wanted.Amounts[resourceType]+e.recording[resourceType])",
		after:  "e.covered[resourceType] = amount",
	},
	{
		what: "a slice may take all available quota", file: storeDir + "slicesize.go",
		before: "available/share.ofRest)",
		after:  "available)",
		test:   "./internal/ledger/ledgerstore TestSliceIsSmall",
	},
	{
		what: "a claim leaves the line although its decision failed", file: "internal/controller/claim/decide.go",
		before: "\tif err != nil {\n\t	return false, err // a postponed claim stays in line\n\t}\n\tc.decided(claim)\n\treturn isGranted, nil\n",
		after:  "\tc.decided(claim)\n\treturn isGranted, err\n",
		test:   "./internal/controller/claim TestPostponedClaimStaysInLine",
	},
	{
		what: "an idle slice stays", file: storeDir + "slicesize.go",
		before: "if e.wantLocked(l, holder, resourceType, most, now) < (amount+1)/2 {",
		after:  "if e.wantLocked(l, holder, resourceType, most, now) < min(0, amount) {",
	},
	{
		what: "a slice returns before the last object can have appeared", file: storeDir + "foreignslices.go",
		before: "return sliceLease + s.ReservationLifetime",
		after:  "return sliceLease",
		test:   "./internal/ledger/ledgerstore TestForeignSlices",
	},
	{
		what: "a writing holder loses its slice", file: storeDir + "foreignslices.go",
		before: "if !ok || is.WrittenAt != f.WrittenAt || is.IsRevoked != f.IsRevoked || !change(l) {",
		after:  "if !ok || is.WrittenAt < 0 || !change(l) {",
		test:   "./internal/ledger/ledgerstore TestSliceOfAWriterIsNotRevoked",
	},
	{
		what: "the slices of others never count as stalled", file: storeDir + "foreignslices.go",
		before: "return !f.IsRevoked && time.Since(f.Since) >= SliceStalledAfter",
		after:  "return !f.IsRevoked && time.Since(f.Since) < 0",
	},
	{
		what: "a denial counts the slices of others as used", file: storeDir + "decider.go",
		before: "\td.isHeld = d.outcome.Code != ledger.Exceeded\n",
		after:  "\td.outcome = Outcome{Code: ledger.Exceeded}\n",
		test:   "./internal/ledger/ledgerstore TestForeignSlices",
	},
	{
		what: "a dry run stays in the ledger", file: storeDir + "decider.go",
		before: "\tif effect == groupcommit.Changed {\n\t\ttrial.Keep()\n",
		after:  "\tif effect == groupcommit.Changed || d.DryRun != NotDry {\n\t\ttrial.Keep()\n",
		test:   "./internal/ledger/ledgerstore TestDryRun",
	},
	{
		what: "a discarded trial keeps the amounts", file: "internal/ledger/account.go",
		before: "\t\tlog.add(func() { a.changeBalance(d, before) })\n",
		after:  "",
		test:   "./internal/ledger TestLedgerAgreesWithModel",
	},
	{
		what: "a slice that made way in vain admits no more", file: storeDir + "decider.go",
		before: "\t\tdefer resume()\n",
		after:  "",
		test:   "./internal/ledger/ledgerstore TestDryRunKeepsSlice",
	},
	{
		what: "a slice does not count against the limit", file: "internal/ledger/slice.go",
		before: "\ta.resizeSlice(before, after)\n\tl.pruneAccount(resourceType)",
		after:  "\ta.resizeSlice(0, 0)\n\tl.pruneAccount(resourceType)",
	},
	{
		what: "a reservation ends before its object can have appeared", file: engineDir + "process.go",
		before: "time.Since(reservation.KnownSince) < e.Store.ReservationLifetime {",
		after:  "time.Since(reservation.KnownSince) < time.Second {",
	},
	{
		what: "a reservation ends although its object exists", file: engineDir + "process.go",
		before: "\t\tif exists {\n\t\t\te.concludeEnd(reservation, o)\n\t\t\treturn e.Materialize(ctx, reservation)\n\t\t}\n",
		after:  "\t\t_ = exists\n",
	},
	{
		what: "the younger of two claims of an object stays", file: engineDir + "orphan.go",
		before: "if i == 0 || all[i-1].Policy() != claim.Policy() {",
		after:  "if i >= 0 {",
		test:   "./internal/claims/engine TestTwins",
	},
	{
		what: "both claims of an object count", file: "internal/inventory/twins.go",
		before: "\tc.remove(idOf(o.UID))\n",
		after:  "\tdelete(c.objects, idOf(o.UID))\n",
		test:   "./internal/inventory TestTwins",
	},
	{
		what: "the claims of deleted objects stay", file: engineDir + "orphan.go",
		before: "return e.deleteClaim(ctx, claim.NamespacedName, claim.UID)",
		after:  "return nil",
	},
	{
		what: "a deleted claim returns its charge although its object exists", file: engineDir + "release.go",
		before: "\t\treturn releasing{live, inUse}, nil",
		after:  "\t\treturn releasing{live, inUse && false}, nil",
	},
	{
		what: "a batch ends although its write failed", file: "internal/groupcommit/commit.go",
		before: "\tif err := g.copy.Commit(state, effects); err != nil {\n\t\treturn err\n\t}\n\tg.finishBatch",
		after:  "\t_ = g.copy.Commit(state, effects)\n\tg.finishBatch",
	},
	{
		what: "after a lost answer there is no second try of the batch", file: "internal/groupcommit/commit.go",
		before: "\t\tcase errors.Is(err, ErrAgain):\n",
		after:  "\t\tcase errors.Is(err, ErrAgain):\n\t\t\tg.fail(batch, nil)\n\t\t\treturn\n",
	},
	{
		what: "the ledger drops entries the journal has only in memory", file: "internal/journal/shipper/shipper.go",
		before: "\t\tif len(batch) == 0 || !s.append(ctx, batch) {",
		after:  "\t\tfor i := range batch {\n\t\t\ts.store.RecordsStored(batch[i].consumer, batch[i].sequence())\n\t\t}\n\t\tif len(batch) == 0 || !s.append(ctx, batch) {",
	},
	{
		what: "the journal gets changes before storage", file: storeDir + "storedcopy.go",
		before: "\tc.ledger.BoundJournal()\n",
		after:  "\tc.ledger.BoundJournal()\n\tc.ledger.MarkStored()\n\tc.offerJournal()\n",
	},
}

// plantAll plants the faults with a match of an expression, one after the other, and prints a table with the finder of
// each.
func plantAll(matching string, seeds int) error {
	expression, err := regexp.Compile(matching)
	if err != nil {
		return err
	}
	missed := 0
	fmt.Println("| fault | file | found by | after |")
	fmt.Println("| --- | --- | --- | --- |")
	all := slices.Concat(countedFaults, faults)
	for i := range all {
		f := &all[i]
		if !expression.MatchString(f.what) {
			continue
		}
		by, after, err := f.find(seeds)
		if err != nil {
			by = err.Error()
			missed++
		}
		if by == "" {
			by = "**nothing**"
			missed++
		}
		fmt.Printf("| %s | `%s` | %s | %s |\n", f.what, f.file, by, after.Round(time.Second/10))
	}
	if missed > 0 {
		return fmt.Errorf("%d faults are found by nothing: a check is missing", missed)
	}
	return nil
}

// find builds the simulation with the fault, and returns its finder.
func (f *fault) find(seeds int) (by string, after time.Duration, err error) {
	source, err := os.ReadFile(f.file)
	if err != nil {
		return "", 0, err
	}
	if bytes.Count(source, []byte(f.before)) != 1 {
		return "", 0, fmt.Errorf("%s does not have this once: %s", f.file, f.before)
	}
	planted := filepath.Join(folder, "planted")
	if err := os.MkdirAll(planted, 0o755); err != nil {
		return "", 0, err
	}
	by, err = filepath.Abs(filepath.Join(planted, filepath.Base(f.file)))
	if err != nil {
		return "", 0, err
	}
	if err := os.WriteFile(by, bytes.Replace(source, []byte(f.before), []byte(f.after), 1), 0o600); err != nil {
		return "", 0, err
	}
	file, err := filepath.Abs(f.file)
	if err != nil {
		return "", 0, err
	}
	replaced := map[string]string{file: by}
	if f.test != "" {
		began := time.Now()
		isRed, err := isRed(planted, replaced, f.test)
		if isRed {
			return "`" + strings.Fields(f.test)[1] + "`", time.Since(began), err
		}
		return "", 0, err
	}
	tests, err := build(planted, replaced)
	if err != nil {
		return "", 0, err
	}
	began := time.Now()
	var output bytes.Buffer
	_, failed := runAll(&output, tests, 0, seeds, 1)
	if len(failed) == 0 {
		return "", 0, nil
	}
	how := ""
	if !bytes.Contains(output.Bytes(), []byte(": after ")) {
		how = ", which does not end"
	}
	return fmt.Sprintf("seed %d%s", slices.Min(failed), how), time.Since(began), nil
}
