package message

import (
	"fmt"
	"math/big"
	"path"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/ledger"
)

const (
	// amountsMax bounds the amounts in a summary. It counts the others.
	amountsMax = 4
	// summaryCharactersMax bounds a summary, a column of a table.
	summaryCharactersMax = 200
)

// Registrations looks up the registration of a resource type, or returns nil.
type Registrations interface {
	Registration(resourceType string) *catalog.Registration
}

// Requests summarises the requests of a claim, such as "replicas=4 replicas, cpu=4 cores". Without registrations,
// amounts are in base units.
func Requests(registrations Registrations, requests []quotav1alpha1.ResourceRequest) string {
	parts := make([]string, 0, len(requests))
	for _, request := range requests {
		parts = append(parts, summaryOf(registrations, request.ResourceType, request.Amount))
	}
	return list(parts)
}

// Allowances summarises the allowances of a grant, such as "cpu=540 cores (location=DLS)".
func Allowances(registrations Registrations, allowances []quotav1alpha1.Allowance) string {
	parts := make([]string, 0, len(allowances))
	for _, allowance := range allowances {
		var sum ledger.Amount
		for _, bucket := range allowance.Buckets {
			sum, _ = sum.Add(ledger.Amount(bucket.Amount)) // a grant with buckets that overflow is not active
		}
		part := summaryOf(registrations, allowance.ResourceType, int64(sum))
		if of := selected(allowance.DimensionSelector); of != "" {
			part += " (" + of + ")"
		}
		parts = append(parts, part)
	}
	return list(parts)
}

// Asks summarises the amounts of a QuotaRequest, such as "cpu=+2 cores (location=DLS)": a limit, or an increase with
// its sign.
func Asks(registrations Registrations, requests []quotav1alpha1.RequestedQuota) string {
	parts := make([]string, 0, len(requests))
	for i := range requests {
		r := &requests[i]
		var part string
		switch {
		case r.Limit != nil:
			part = summaryOf(registrations, r.ResourceType, *r.Limit)
		case r.Increase != nil:
			part = strings.Replace(summaryOf(registrations, r.ResourceType, *r.Increase), "=", "=+", 1)
		}
		if of := Dimensions(r.Dimensions); of != "" {
			part += " (" + of + ")"
		}
		parts = append(parts, part)
	}
	return list(parts)
}

func summaryOf(registrations Registrations, resourceType string, amount int64) string {
	var r *catalog.Registration
	if registrations != nil {
		r = registrations.Registration(resourceType)
	}
	text := strconv.FormatInt(amount, 10)
	if r != nil {
		text = Amount(ledger.Amount(amount), r)
	}
	return path.Base(resourceType) + "=" + text
}

// Dimensions summarises a dimension set, such as "location=DFW,tier=gold". Keys are reduced to their last segment.
func Dimensions(dimensions map[string]string) string {
	parts := make([]string, 0, len(dimensions))
	for key, value := range dimensions {
		parts = append(parts, path.Base(key)+"="+value)
	}
	slices.Sort(parts)
	return cutShort(strings.Join(parts, ","))
}

// selected summarises a dimension selector like Dimensions.
func selected(selector *metav1.LabelSelector) string {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return ""
	}
	short := selector.DeepCopy()
	for key, value := range selector.MatchLabels {
		delete(short.MatchLabels, key)
		short.MatchLabels[path.Base(key)] = value
	}
	for i := range short.MatchExpressions {
		short.MatchExpressions[i].Key = path.Base(short.MatchExpressions[i].Key)
	}
	return metav1.FormatLabelSelector(short)
}

// Percent returns the used percentage of a limit: "80%". It rounds to the nearest, but only a full limit is "100%", and
// every use is more than "0%".
func Percent(used, limit ledger.Amount) string {
	switch {
	case used == 0:
		return "0%"
	case limit == 0:
		return "over"
	}

	// Half a percent is added before the division rounds down.
	u, l := big.NewInt(int64(used)), big.NewInt(int64(limit))
	percent := new(big.Int).Mul(u, big.NewInt(200))
	percent.Div(percent.Add(percent, l), new(big.Int).Lsh(l, 1))

	whole := big.NewInt(100)
	switch {
	case percent.Sign() == 0:
		return "<1%"
	case used < limit && percent.Cmp(whole) >= 0:
		return "99%"
	case used > limit && percent.Cmp(whole) <= 0:
		return "101%"
	}
	return percent.String() + "%"
}

// Used writes the use of a limit: "8/10 GiB".
func Used(used, limit ledger.Amount, r *catalog.Registration) string {
	return number(used, r.Factor) + "/" + Amount(limit, r)
}

// list joins the first parts and counts the others.
func list(parts []string) string {
	if more := len(parts) - amountsMax; more > 0 {
		parts = append(slices.Clone(parts[:amountsMax]), fmt.Sprintf("%d more", more))
	}
	return cutShort(strings.Join(parts, ", "))
}

func cutShort(text string) string {
	characters := []rune(text)
	if len(characters) <= summaryCharactersMax {
		return text
	}
	return string(characters[:summaryCharactersMax-1]) + "…"
}
