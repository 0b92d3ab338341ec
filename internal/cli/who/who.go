// Package who lists the consumers and the objects that use a resource type, most first. It reads with the permissions
// of its user. Only commands import it.
package who

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/usage"
)

// Users are the users of a resource type.
type Users struct {
	// Items are the consumers, and Objects the objects that use their quota; each the most first.
	Items   []usage.Item `json:"items"`
	Objects []Object     `json:"objects"`
	// Notes are further remarks for the user, and More counts the omitted objects.
	Notes []string `json:"notes,omitempty"`
	More  int      `json:"more,omitempty"`
}

// Object is an object that uses a resource type.
type Object struct {
	ConsumerRef  quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceType string                    `json:"resourceType"`
	// Name is Kind/name, after the namespace if there is one.
	Name string `json:"name"`
	// Amount is in base units.
	Amount int64  `json:"amount"`
	State  string `json:"state"`

	unit usage.Unit
}

// Of returns the users of the resource types of a report with claims. It has at most objectsMax objects, or all for 0.
// Objects waiting for quota follow those with quota.
func Of(report *usage.Report, objectsMax int) *Users {
	u := &Users{Items: slices.Clone(report.Items), Objects: []Object{}, Notes: report.Notes}
	slices.SortStableFunc(u.Items, func(a, b usage.Item) int { return cmp.Compare(b.Used, a.Used) })
	others := 0
	for i := range u.Items {
		objects := ObjectsOf(report, &u.Items[i])
		if OtherUsed(&u.Items[i], objects) > 0 {
			others++
		}
		u.Objects = append(u.Objects, objects...)
	}
	if others > 0 {
		u.Notes = append(slices.Clone(u.Notes), message.Count(others, "consumer uses", "consumers use")+" more through other objects, not shown here.")
	}
	Sort(u.Objects)
	if more := len(u.Objects) - objectsMax; objectsMax > 0 && more > 0 {
		u.Objects, u.More = u.Objects[:objectsMax], more
	}
	return u
}

// ObjectsOf returns the objects of a report that use a resource type of a consumer.
func ObjectsOf(report *usage.Report, item *usage.Item) []Object {
	unit, _ := usage.UnitOf(*item)
	var objects []Object
	granted := map[quotav1alpha1.UnversionedObjectReference]int{} // an object may count by one policy, and have a claim by another
	for i := range report.Claims {
		claim := &report.Claims[i]
		amount, isFor := amountOf(claim, item.ResourceType)
		if claim.ConsumerRef != item.ConsumerRef || !isFor {
			continue
		}
		name := claim.For
		if claim.ForNamespace != "" {
			name = claim.ForNamespace + "/" + name
		}
		if claim.IsGranted() && claim.For != "" {
			if at, isKnown := granted[claim.Object()]; isKnown {
				objects[at].Amount += amount
				continue
			}
			granted[claim.Object()] = len(objects)
		}
		objects = append(objects, Object{
			ConsumerRef: claim.ConsumerRef, ResourceType: item.ResourceType, Name: name, Amount: amount, State: claim.State, unit: unit,
		})
	}
	return objects
}

// OtherUsed returns the use of a resource type by objects other than the listed ones, in base units.
func OtherUsed(item *usage.Item, objects []Object) int64 {
	other := item.Used
	for _, o := range objects {
		if o.IsGranted() {
			other -= o.Amount
		}
	}
	return max(other, 0) // the use of a new object is shown some seconds later
}

// amountOf adds up the amounts of a resource type in a claim: it may ask for several dimensions.
func amountOf(claim *usage.ClaimItem, resourceType string) (amount int64, isFor bool) {
	for _, request := range claim.Requests {
		if request.ResourceType == resourceType {
			amount, isFor = amount+request.Amount, true
		}
	}
	return amount, isFor
}

// Sort sorts objects: those with their quota first, and of these the largest.
func Sort(objects []Object) {
	waits := func(o Object) int {
		if o.IsGranted() {
			return 0
		}
		return 1
	}
	slices.SortFunc(objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(waits(a), waits(b)), cmp.Compare(b.Amount, a.Amount), cmp.Compare(a.Name, b.Name))
	})
}

// IsGranted reports whether the object has its quota.
func (o Object) IsGranted() bool { return (&usage.ClaimItem{State: o.State}).IsGranted() }

// AmountText returns the amount in display units.
func (o Object) AmountText() string { return o.unit.Amount(o.Amount) }

// IsEmpty reports whether nobody uses or may use the resource type.
func (u *Users) IsEmpty() bool { return len(u.Items)+len(u.Objects) == 0 }

// Print writes the consumers and the objects.
func (u *Users) Print(w io.Writer, format usage.Format) error {
	if format == usage.FormatJSON || format == usage.FormatYAML {
		return usage.Encode(w, u, format)
	}
	rows := [][]string{{"CONSUMER", "RESOURCE TYPE", "USED", "LIMIT", "UTILIZATION", "WAITING"}}
	for i := range u.Items {
		item, waiting := &u.Items[i], "-"
		if item.Waiting != nil {
			waiting = strconv.Itoa(*item.Waiting)
		}
		used, limit := item.Amounts()
		rows = append(rows, []string{usage.NameOf(item.ConsumerRef), item.ResourceType, used, limit, item.Percent(), waiting})
	}
	if err := usage.PrintTable(w, rows); err != nil {
		return err
	}
	if err := u.printObjects(w, format == usage.FormatWide); err != nil {
		return err
	}
	for _, note := range u.Notes {
		if _, err := fmt.Fprintf(w, "\n%s\n", note); err != nil {
			return err
		}
	}
	return nil
}

func (u *Users) printObjects(w io.Writer, isWide bool) error {
	if len(u.Objects) == 0 {
		return nil
	}
	rows := [][]string{{"OBJECT", "CONSUMER", "AMOUNT", "STATE"}}
	if isWide {
		rows[0] = append(rows[0], "RESOURCE TYPE", "AMOUNT (BASE)")
	}
	for _, o := range u.Objects {
		row := []string{o.Name, usage.NameOf(o.ConsumerRef), o.AmountText(), o.State}
		if isWide {
			row = append(row, o.ResourceType, strconv.FormatInt(o.Amount, 10))
		}
		rows = append(rows, row)
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := usage.PrintTable(w, rows); err != nil {
		return err
	}
	if u.More > 0 {
		_, err := fmt.Fprintf(w, "\nLeft out by --number: %s.\n", message.Count(u.More, "object", "objects"))
		return err
	}
	return nil
}
