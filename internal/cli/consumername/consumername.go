// Package consumername parses the names of consumers as users give them. Commands and the console import it.
package consumername

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Name is a consumer as a user names it. It may stand for several consumers.
type Name struct {
	given quotav1alpha1.ConsumerRef
	// isFull reports whether the name has an API group. The core group is empty, as in Namespace./web.
	isFull bool
}

// Parse parses KIND/NAME, KIND.GROUP/NAME or KIND.GROUP/NAMESPACE/NAME.
func Parse(text string) (Name, error) {
	var n Name
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return n, fmt.Errorf("%q is not KIND/NAME, such as organization/acme", text)
	}
	of := schema.ParseGroupKind(parts[0])
	if of.Kind == "" {
		return n, errors.New("the kind is missing: give KIND.GROUP/NAME")
	}
	n.isFull = strings.Contains(parts[0], ".")
	n.given = quotav1alpha1.ConsumerRef{APIGroup: of.Group, Kind: of.Kind, Name: parts[len(parts)-1]}
	if len(parts) == 3 {
		n.given.Namespace = parts[1]
	}
	return n, nil
}

// Full returns the consumer of a name with an API group. The name of a namespaced consumer has its namespace, too.
func (n Name) Full() (ref quotav1alpha1.ConsumerRef, isFull bool) { return n.given, n.isFull }

// Exact returns the consumer of a full name if its kind and group look as an API writes them. Users may write
// organization for Organization. Resolving such a name takes the list of consumers.
func (n Name) Exact() (ref quotav1alpha1.ConsumerRef, isExact bool) {
	kind := n.given.Kind
	isKind := unicode.IsUpper(rune(kind[0])) && (len(kind) == 1 || kind != strings.ToUpper(kind))
	return n.given, n.isFull && isKind && n.given.APIGroup == strings.ToLower(n.given.APIGroup)
}

// Short returns the name as KIND/NAME.
func (n Name) Short() string { return n.given.Kind + "/" + n.given.Name }

// Matches reports whether the name may stand for a consumer. The kind may be in any case.
func (n Name) Matches(ref quotav1alpha1.ConsumerRef) bool {
	return strings.EqualFold(n.given.Kind, ref.Kind) && n.given.Name == ref.Name &&
		(!n.isFull || strings.EqualFold(n.given.APIGroup, ref.APIGroup)) && (n.given.Namespace == "" || n.given.Namespace == ref.Namespace)
}

// List returns consumers as users name them, sorted. Ambiguous names have their API groups.
func List(all []quotav1alpha1.ConsumerRef) []string {
	short := func(ref quotav1alpha1.ConsumerRef) string { return ref.Kind + "/" + ref.Name }
	count := map[string]int{}
	for _, ref := range all {
		count[short(ref)]++
	}
	texts := make([]string, 0, len(all))
	for _, ref := range all {
		text := short(ref)
		if count[text] > 1 {
			text = ref.Kind + "." + ref.APIGroup + "/"
			if ref.Namespace != "" {
				text += ref.Namespace + "/"
			}
			text += ref.Name
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}
