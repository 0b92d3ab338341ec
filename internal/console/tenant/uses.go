package tenant

import (
	"cmp"
	"slices"
	"strconv"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
)

// rowsPerPage is how many claims a page shows.
const rowsPerPage = 50

// usesPage shows the users of quota: claims and their objects.
type usesPage struct {
	scope
	Forbidden string
	Rows      []row
	// First, Last and Total number the rows of the page among all.
	First, Last, Total int
	// ReadMax is the number of claims read if there are more, or 0.
	ReadMax int
	// Previous and Next are the pages beside this one, or empty.
	Previous, Next string
}

func showUses(r *web.Request) (web.Answer, error) {
	s, err := scopeOf(r, "/uses")
	if err != nil {
		return nil, err
	}
	s.WithConsumer, s.WithType = true, true
	number, err := pageNumber(r.Query("page"))
	if err != nil {
		return nil, err
	}
	page := &usesPage{scope: s}
	answer := web.Page{
		Template: "uses", Title: "What uses it", Data: page,
		Command: command("bursar usage --claims", "-n", s.Namespace, "--consumer", s.Consumer, "--type", s.Type),
	}
	if s.MustChoose {
		return answer, nil
	}
	found, err := s.readClaims(r.Context(), r.API())
	if err != nil {
		page.Forbidden, err = forbidden(err, "the claims here")
		return answer, err
	}
	quotas, err := s.quotas(r)
	if err != nil {
		return nil, err
	}
	page.show(found, number, quotas)
	return answer, nil
}

// pageNumber parses the number of a page. The first one is 1.
func pageNumber(text string) (int, error) {
	if text == "" {
		return 1, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > claimsMax {
		return 0, web.Invalid("There is no page " + text + ". Begin with the first one.")
	}
	return number, nil
}

// show shows one page of claims: the largest first if all amounts are of one resource type, and otherwise the latest
// first.
func (p *usesPage) show(found *claims, number int, quotas *overview.Overview) {
	slices.SortFunc(found.all, func(a, b quotav1alpha1.ResourceClaim) int {
		return cmp.Or(cmp.Compare(p.amountOf(&b), p.amountOf(&a)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if found.isCut {
		p.ReadMax = claimsMax
	}
	p.Total = len(found.all)
	from := min((number-1)*rowsPerPage, p.Total)
	until := min(from+rowsPerPage, p.Total)
	p.First, p.Last = from+1, until
	for i := range found.all[from:until] {
		p.Rows = append(p.Rows, p.rowOf(&found.all[from+i], quotas))
	}
	if number > 1 {
		p.Previous = p.URL("/uses", "page", strconv.Itoa(number-1))
	}
	if until < p.Total {
		p.Next = p.URL("/uses", "page", strconv.Itoa(number+1))
	}
}
