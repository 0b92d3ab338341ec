package ledger_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/ledger"
)

// Scenarios are lines of an operation, its arguments, an arrow and the expected result.
// A charge is type@region:amount, an allowance type[region|region]:amount; both may be without
// region. Every operation runs on the model too.
var scenarios = map[string]struct{ reason, script string }{
	"one limit": {"what is reserved or exists counts; what is given back does not", `
		reserve a gpu:1               -> Exceeded gpu 0/0 0
		grant g gpu:3                 -> true
		reserve a gpu:2               -> Admitted 1
		reserve b gpu:2               -> Exceeded gpu 2/3 1
		cancel a                      -> true
		observe 1 gpu:2               -> true
		account gpu                   -> limit 3 used 2 reserved 0 available 1 claims 1
		reserve b gpu:1               -> Admitted 2
		reserve c gpu:1               -> Exceeded gpu 3/3 0
		cancel b                      -> true
		observe 2                     -> true
		observe 1 gpu:2               -> false
		account gpu                   -> limit 3 used 0 reserved 0 available 3 claims 0`},
	"retry": {"a key that is reserved is not charged again, even when nothing is left", `
		grant g gpu:2                 -> true
		reserve a gpu:2               -> Admitted 1
		reserve a gpu:2               -> Admitted 1
		reserve a gpu:9               -> Admitted 1
		overdraft a gpu:9             -> Admitted 1
		account gpu                   -> limit 2 used 0 reserved 2 available 0 claims 0
		cancel a                      -> true
		cancel a                      -> false`},
	"whole or not at all": {"a type that is short leaves the others untouched", `
		grant g gpu:1 cpu:8           -> true
		reserve a cpu:4 gpu:2         -> Exceeded gpu 0/1 1
		account cpu                   -> limit 8 used 0 reserved 0 available 8 claims 0
		reserve a gpu:2 cpu:9 ram:1   -> Exceeded gpu 0/1 1, cpu 0/8 8, ram 0/0 0
		reserve a cpu:8 gpu:1         -> Admitted 1`},
	"limit lowered": {"nothing is evicted and nothing more is granted until usage falls", `
		grant g gpu:5                 -> true
		observe 1 gpu:4               -> true
		grant g gpu:2                 -> true
		account gpu                   -> limit 2 used 4 reserved 0 available 0 claims 1
		reserve b gpu:1               -> Exceeded gpu 4/2 0
		observe 2                     -> true
		reserve b gpu:1               -> Admitted 1
		ungrant g                     -> true
		reserve c gpu:1               -> Exceeded gpu 1/0 0`},
	"overdraft": {"what exists is charged beyond the limit", `
		grant g gpu:1                 -> true
		overdraft a gpu:3             -> Admitted 1
		account gpu                   -> limit 1 used 0 reserved 3 available 0 claims 0
		overdraft b gpu:9223372036854775804 -> Admitted 2
		overdraft c gpu:1             -> Overflow
		overdraft c ram:9223372036854775807 ram@eu:1 -> Overflow
		account ram                   -> limit 0 used 0 reserved 0 available 0 claims 0`},
	"moving over": {"who can be paid from elsewhere makes way for who cannot", `
		grant g gpu[eu]:2 gpu[eu|us]:2 -> true
		reserve a gpu@eu:3            -> Admitted 1
		available gpu@us              -> 1
		reserve b gpu@us:1            -> Admitted 2
		available gpu@eu              -> 0
		cancel a                      -> true
		reserve c gpu@us:1            -> Admitted 3
		available gpu@eu              -> 2
		reserve d gpu@eu:3            -> Exceeded gpu@eu 2/4 2`},
	"chain": {"making way may take several steps", `
		grant g gpu[a|b]:1 gpu[b|c]:1 gpu[c|d]:1 -> true
		reserve 1 gpu@a:1             -> Admitted 1
		reserve 2 gpu@b:1             -> Admitted 2
		reserve 3 gpu@c:1             -> Admitted 3
		reserve 4 gpu@d:1             -> Exceeded gpu@d 3/3 0
		cancel 1                      -> true
		reserve 4 gpu@d:1             -> Admitted 4
		available gpu@a               -> 0`},
	"one type, two regions": {"charges of a type are judged together", `
		grant g gpu[eu|us]:3          -> true
		reserve a gpu@eu:2 gpu@us:2   -> Exceeded gpu@us 0/3 1
		available gpu@eu              -> 3
		reserve a gpu@eu:2 gpu@us:1   -> Admitted 1
		reserve b gpu:1               -> Exceeded gpu 3/3 0`},
	"overdrawn elsewhere": {"a region that is overdrawn does not bar one it has nothing in common with", `
		grant g gpu[eu]:1 gpu[us]:4   -> true
		overdraft a gpu@eu:9          -> Admitted 1
		account gpu                   -> limit 5 used 0 reserved 9 available 0 claims 0
		available gpu@us              -> 4
		reserve b gpu@us:4            -> Admitted 2
		reserve c gpu@us:1            -> Exceeded gpu@us 13/5 0`},
	"overdrawn first": {"what is free goes to the overdrawn before it goes to a request", `
		grant g gpu[eu]:1 gpu[eu|us]:3 -> true
		overdraft a gpu@eu:3          -> Admitted 1
		available gpu@us              -> 1
		overdraft b gpu@eu:3          -> Admitted 2
		reserve c gpu@us:1            -> Exceeded gpu@us 6/4 0
		cancel b                      -> true
		reserve c gpu@us:1            -> Admitted 3`},
	"what exists": {"demand follows the latest observation, beyond the limit if need be", `
		grant g gpu:5 cpu:5           -> true
		observe 3 gpu:2 cpu:6         -> true
		reserve a cpu:1               -> Exceeded cpu 6/5 0
		observe 3 gpu:2 cpu:6         -> false
		observe 2 gpu:9               -> false
		observe 4 gpu@eu:2 cpu:3      -> true
		account gpu                   -> limit 5 used 2 reserved 0 available 3 claims 1
		observe 5 gpu:1 gpu:2         -> error
		observe 5 gpu:-1              -> error
		reserve a cpu:2 gpu:3         -> Admitted 1
		observe 5 gpu:9223372036854775805 -> error
		account cpu                   -> limit 5 used 3 reserved 2 available 0 claims 1`},
	"limits that do not fit": {"a sum that would wrap is rejected, and the grants stay as they were", `
		grant g gpu:9223372036854775800 -> true
		grant h cpu:1 gpu:8           -> error
		account cpu                   -> limit 0 used 0 reserved 0 available 0 claims 0
		grant h gpu:7                 -> true
		grant h gpu:7                 -> false
		grant g gpu:9223372036854775801 -> error
		account gpu                   -> limit 9223372036854775807 used 0 reserved 0 available 9223372036854775807 claims 0
		reserve a gpu:9223372036854775807 -> Admitted 1
		reserve b gpu:9223372036854775807 gpu@eu:9223372036854775807 -> Exceeded gpu 9223372036854775807/9223372036854775807 0, gpu@eu 9223372036854775807/9223372036854775807 0`},
}

func TestScenarios(t *testing.T) {
	for name, c := range scenarios {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			for line := range strings.Lines(strings.TrimSpace(c.script)) {
				operation, want, _ := strings.Cut(strings.TrimSpace(line), "->")
				got := p.perform(strings.Fields(operation))
				if want = strings.TrimSpace(want); got != want {
					t.Fatalf("%s\n got %s\nwant %s: %s", operation, got, want, c.reason)
				}
				p.compare()
			}
		})
	}
}

// perform runs the operation of one line and describes its outcome.
func (p *pair) perform(words []string) string {
	p.t.Helper()
	subject, arguments := words[1], words[2:]
	switch words[0] {
	case "grant":
		g := ledger.Grant{UID: subject}
		for _, a := range arguments {
			g.Allowances = append(g.Allowances, parseAllowance(a))
		}
		changed, err := p.ledger.SetGrant(g)
		wantChanged, wantErr := p.model.SetGrant(g)
		p.same("SetGrant", []bool{changed, err != nil}, []bool{wantChanged, wantErr != nil})
		if err != nil {
			return "error"
		}
		return fmt.Sprint(changed)
	case "ungrant":
		return fmt.Sprint(p.same("RemoveGrant", p.ledger.RemoveGrant(subject), p.model.RemoveGrant(subject)))
	case "reserve":
		r := ledger.Reservation{Key: subject, Charges: parseCharges(arguments)}
		d := p.ledger.Reserve(r)
		p.same("Reserve", d, p.model.Reserve(r))
		return describeDecision(d)
	case "overdraft":
		r := ledger.Reservation{Key: subject, Charges: parseCharges(arguments)}
		d := p.ledger.ReserveOverdraft(r)
		p.same("Adopt", d, p.model.ReserveOverdraft(r))
		return describeDecision(d)
	case "cancel":
		return fmt.Sprint(p.same("Cancel", p.ledger.Cancel(subject, 0), p.model.Cancel(subject, 0)))
	case "observe":
		uptake, err := p.ledger.Observe(parseObservation(subject, arguments), seen(ledger.Visibility{}))
		changed, wantErr := p.model.Observe(parseObservation(subject, arguments))
		p.same("Observe", []bool{uptake.HasChanged, err != nil}, []bool{changed, wantErr != nil})
		if err != nil {
			return "error"
		}
		return fmt.Sprint(changed)
	case "available":
		c := parseCharge(subject + ":0")
		return fmt.Sprint(p.ledger.Available(c.ResourceType, c.Dimensions))
	case "account":
		a := p.ledger.Account(subject)
		return fmt.Sprintf("limit %d used %d reserved %d available %d claims %d", a.Limit, a.Used, a.Reserved, a.Available, a.Claims)
	}
	panic("no such operation: " + words[0])
}

func describeDecision(d ledger.Decision) string {
	switch d.Code {
	case ledger.Admitted:
		return fmt.Sprintf("Admitted %d", d.Sequence)
	case ledger.Exceeded:
		var short []string
		for _, s := range d.Shortages {
			name := s.ResourceType
			if region, ok := s.Dimensions.Get("region"); ok {
				name += "@" + region
			}
			short = append(short, fmt.Sprintf("%s %d/%d %d", name, s.Used, s.Limit, s.Available))
		}
		return "Exceeded " + strings.Join(short, ", ")
	}
	return d.Code.String()
}

func parseCharges(words []string) []ledger.Charge {
	var charges []ledger.Charge
	for _, word := range words {
		charges = append(charges, parseCharge(word))
	}
	return charges
}

// parseObservation returns an observation with one object for each charge.
func parseObservation(version string, charges []string) ledger.Observation {
	o := ledger.Observation{Kind: "things", Basis: ledger.Basis{Objects: ledger.Version(parseAmount(version))}}
	for _, c := range parseCharges(charges) {
		o.Demands = append(o.Demands, ledger.Demand{ResourceType: c.ResourceType, Dimensions: c.Dimensions, Amount: c.Amount, Objects: 1})
	}
	return o
}

func parseCharge(word string) ledger.Charge {
	name, amount, _ := strings.Cut(word, ":")
	resourceType, region, regional := strings.Cut(name, "@")
	c := ledger.Charge{ResourceType: resourceType, Amount: parseAmount(amount)}
	if regional {
		c.Dimensions = dimensionsOf("region", region)
	}
	return c
}

func parseAllowance(word string) ledger.Allowance {
	name, amount, _ := strings.Cut(word, ":")
	resourceType, regions, regional := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	a := ledger.Allowance{ResourceType: resourceType, Amount: parseAmount(amount)}
	if regional {
		a.Selector = selectorOf(in("region", strings.Split(regions, "|")...))
	}
	return a
}

func parseAmount(word string) ledger.Amount {
	amount, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return ledger.Amount(amount)
}
