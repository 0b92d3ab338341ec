package usage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/usage/holders"
)

// readCounted asks which objects count towards the reported items or, for one namespace, in that namespace.
func (r *reader) readCounted(ctx context.Context, items []Item) (*holders.Counted, error) {
	asker := &holders.Asker{API: r.api, Namespace: r.filter.Namespace}
	all := &holders.Counted{}
	for _, question := range r.questions(items) {
		counted, err := asker.Ask(ctx, question)
		if err != nil {
			return nil, err
		}
		all.Add(counted)
	}
	return all, nil
}

// questions returns one question about all consumers, unless the filter names some. A few are asked about one by one.
func (r *reader) questions(items []Item) []holders.Question {
	var consumers []quotav1alpha1.ConsumerRef
	var types []string
	for i := range items {
		if ref := items[i].ConsumerRef; ref.Kind != allocationKind && !slices.Contains(consumers, ref) {
			consumers = append(consumers, ref)
		}
		if !slices.Contains(types, items[i].ResourceType) {
			types = append(types, items[i].ResourceType)
		}
	}
	asked := holders.Question{OrNamespace: r.filter.Namespace, Max: claimsMax}
	if r.filter.ResourceType != "" && len(types) == 1 {
		asked.ResourceType = types[0]
	}

	var questions []holders.Question
	isOfAll := r.filter.Consumer == "" && r.filter.Namespace == ""
	if isOfAll || len(consumers) > questionsMax {
		questions = append(questions, asked)
	} else {
		for i := range consumers {
			asked.Consumer = &consumers[i]
			questions = append(questions, asked)
		}
	}
	if r.filter.Namespace != "" {
		asked.Consumer, asked.Namespace = nil, r.filter.Namespace
		questions = append(questions, asked)
	}
	return questions
}

// note adds what is missing in the answer about the objects that count.
func (r *Report) note(counted *holders.Counted) {
	r.Notes = append(r.Notes, counted.Notes()...)
	if counted.More > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("There are more than %d objects that count, and the rest is left out; name a consumer or a resource type.", claimsMax))
	}
	if hidden := counted.Hidden; hidden != nil {
		units := unitsOf(r.Items)
		var amounts []string
		for _, a := range hidden.Amounts {
			amounts = append(amounts, shortType(a.ResourceType)+"="+units[a.ResourceType].Amount(a.Amount))
		}
		r.Notes = append(r.Notes, fmt.Sprintf("Not shown to you: %s, with %s.",
			message.Count(hidden.Objects, "object that counts", "objects that count"), strings.Join(amounts, ", ")))
	}
}
