package importer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/naming"
)

// typesMax is how many resource types a policy may request, and allowancesMax how many a grant may have.
const typesMax, allowancesMax = 20, 20

// resourceTypeMax is the length of the longest resource type, in characters.
const resourceTypeMax = 253

// consumerGroup and consumerKind are the kind of imported consumers. ResourceRegistrations cannot name Namespaces,
// because these have no API group.
var consumerGroup, consumerKind = quotakinds.Consumers.Group, quotakinds.Consumers.Kind

// account is one resource of one consumer in some scopes.
type account struct {
	name   corev1.ResourceName
	scopes []corev1.ScopedResourceSelectorRequirement
}

// resourceType names the account in grants, such as resourcequota/besteffort/pods. A hash stands for the end of a name
// that is too long.
func (a account) resourceType(source string) string {
	name := source + "/" + string(a.name)
	if scope := scopeName(a.scopes); scope != "" {
		name = source + "/" + scope + "/" + string(a.name)
	}
	runes := []rune(name)
	if len(runes) <= resourceTypeMax {
		return name
	}
	suffix := "-" + naming.Suffix(name)
	return string(runes[:resourceTypeMax-len(suffix)]) + suffix
}

// consumer is a consumer with its limits.
type consumer struct {
	ref     quotav1alpha1.ConsumerRef
	selects Selection
	limits  map[string]int64 // by resource type
	sources []Limit
}

// Plan has the objects of an import.
type Plan struct {
	Registrations []*quotav1alpha1.ResourceRegistration
	Grants        []*quotav1alpha1.ResourceGrant
	Policies      []*quotav1alpha1.ClaimCreationPolicy
	GrantPolicies []*quotav1alpha1.GrantCreationPolicy
	// Consumers are the consumers to create.
	Consumers []quotav1alpha1.ConsumerRef
	// Limited are the limited resources of namespaces with limits of their own, by namespace.
	Limited map[string][]string
	// TakenOver are the limits in it.
	TakenOver []TakenOver
	Notes     []Note
	// Kept are enforced limits and objects of earlier imports that stay although the former system no longer has them.
	// Deleted are all others that it no longer has.
	Kept, Deleted []Leftover
	// Audited are policies that enforced until now, and only count after the import.
	Audited []string

	// isDeclared reports whether the plan has objects that people declared for the former system.
	isDeclared bool
	// unserved are enforced limits of kinds that the server does not serve.
	unserved []string
	// kept has the keys of whole objects in Kept, and those of invalid.
	kept map[string]bool
	// invalid has the names and keys of left out objects that Bursar would reject.
	invalid map[string]bool
	// made are grants made by policies of the former system. An import leaves them out, but they count.
	made []*quotav1alpha1.ResourceGrant
	// selections are the namespaces of policies by their names. A policy without one may apply anywhere.
	selections map[string]Selection
	// followed are the resources of the policies.
	followed []schema.GroupVersionResource
}

// TakenOver is a limit taken over by an import.
type TakenOver struct {
	From         string                    `json:"from"`
	Resource     string                    `json:"resource"`
	ConsumerRef  quotav1alpha1.ConsumerRef `json:"consumerRef"`
	ResourceType string                    `json:"resourceType"`
	// Hard is the amount as the former system writes it, and Limit the same in base units. Of several objects with the
	// limit, each has the lowest amount, because only this is in effect.
	Hard  string `json:"hard,omitempty"`
	Limit int64  `json:"limit"`
}

// builder makes a plan of limits.
type builder struct {
	source string
	mapper apimeta.RESTMapper
	// earlier are the objects of earlier imports.
	earlier *earlier
	// namespaces are those of the server with Bursar.
	namespaces []corev1.Namespace
	plan       *Plan
	consumers  map[string]*consumer
	accounts   map[string]account
	measures   map[string]measure
}

// build plans the replacement of limits. It is pure but for the kinds known to the mapper. Resource types stay in the
// policies and grants of earlier imports, so a changed import neither repeats a charge nor interrupts a limit.
func build(source string, mapper apimeta.RESTMapper, limits []Limit, before *earlier, namespaces []corev1.Namespace) *Plan {
	b := &builder{
		source: source, mapper: mapper, earlier: before, namespaces: namespaces, plan: &Plan{Limited: map[string][]string{}, selections: map[string]Selection{}},
		consumers: map[string]*consumer{}, accounts: map[string]account{}, measures: map[string]measure{},
	}
	for i := range limits {
		b.add(&limits[i])
	}
	b.plan.takeLowest()
	b.addRegistrations()
	names := sortedKeys(b.consumers)
	for _, name := range names {
		c := b.consumers[name]
		b.plan.Consumers = append(b.plan.Consumers, c.ref)
		b.addGrants(c)
	}
	b.addPolicies(names)
	return b.plan
}

func (b *builder) note(what, why string) {
	b.plan.Notes = append(b.plan.Notes, Note{what, why})
}

// add adds the amount of each resource in a limit. Of several limits of one account, the lowest counts.
func (b *builder) add(l *Limit) {
	if slices.Contains([]string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}, l.Namespace) && l.Select.isOwn() {
		b.note(l.From, "Bursar leaves "+l.Namespace+" alone: keep it")
		return
	}
	if _, err := b.conditions(l.Select, l.Scopes, namespaceObject); err != nil {
		b.note(l.From, err.Error()+": keep it")
		return
	}
	isUsed := false
	for _, name := range slices.Sorted(maps.Keys(l.Hard)) {
		isAdded, err := b.addAmount(l, name)
		if err != nil {
			b.note(l.From+": "+string(name), err.Error())
		}
		isUsed = isUsed || isAdded
	}
	if isUsed {
		c := b.consumerOf(l)
		c.sources = append(c.sources, *l)
	}
}

// addAmount adds the amount of a resource in a limit, and reports whether it counts. The error is the reason why Bursar
// cannot count it.
func (b *builder) addAmount(l *Limit, name corev1.ResourceName) (bool, error) {
	m, err := measureOf(b.mapper, name)
	if err != nil || !b.serves(m.kind) {
		if b.earlier.enforcedTypes()[account{name, l.Scopes}.resourceType(b.source)] && !errors.Is(err, errNotCounted) {
			b.plan.unserved = append(b.plan.unserved, fmt.Sprintf("%s of %s", name, l.From))
		}
		return false, err
	}
	if len(l.Scopes) > 0 && m.kind != pods {
		return false, errors.New("not limited: Kubernetes counts only Pods in a ResourceQuota with scopes")
	}
	quantity := l.Hard[name]
	amount, err := amountOf(quantity, m.unit)
	if err != nil {
		return false, err
	}
	a := account{name, l.Scopes}
	resourceType := a.resourceType(b.source)
	if size := utf8.RuneCountInString(b.amountOf(l.Select, resourceType, m)); size > expressionMax {
		return false, fmt.Errorf("its expression in a policy would have %d characters, and the most are %d: keep it", size, expressionMax)
	}
	before, isLimited := b.limitOf(l, resourceType)
	if l.kept != nil {
		return b.keep(l, a, m, isLimited), nil
	}
	lowest := amount
	if isLimited {
		b.note(l.From+": "+string(name), fmt.Sprintf("%s is limited twice for %s; the lower one is taken over", name, l.Consumer))
		lowest = min(amount, before)
	}
	c := b.set(l, a, m, lowest)
	b.plan.TakenOver = append(b.plan.TakenOver, TakenOver{l.From, string(name), c.ref, resourceType, quantity.String(), amount})
	return true, nil
}

// serves reports whether the server serves a kind, and notes the others: they have no objects to limit, and a policy
// would wait for them.
func (b *builder) serves(kind schema.GroupVersionKind) bool {
	if _, err := b.mapper.RESTMapping(kind.GroupKind(), kind.Version); !apimeta.IsNoMatchError(err) {
		return true
	}
	note := Note{kind.Kind, "the server does not serve it, so there is nothing to limit: import again once it does"}
	if !slices.Contains(b.plan.Notes, note) {
		b.plan.Notes = append(b.plan.Notes, note)
	}
	return false
}

// takeLowest gives the lowest amount of a limit to all objects with this limit.
func (p *Plan) takeLowest() {
	lowest := map[used]TakenOver{}
	for _, t := range p.TakenOver {
		key := used{t.ConsumerRef, t.ResourceType}
		if other, isKnown := lowest[key]; !isKnown || t.Limit < other.Limit {
			lowest[key] = t
		}
	}
	for i := range p.TakenOver {
		t := &p.TakenOver[i]
		in := lowest[used{t.ConsumerRef, t.ResourceType}]
		t.Hard, t.Limit = in.Hard, in.Limit
	}
}

// keep keeps an account of a limit whose object is gone. It reports false if another object has the limit now, or if
// the account was not enforced.
func (b *builder) keep(l *Limit, a account, m measure, isLimited bool) bool {
	resourceType := a.resourceType(b.source)
	amount, isKept := l.kept[resourceType]
	if isLimited || !isKept {
		return false
	}
	c := b.set(l, a, m, amount)
	b.plan.Kept = append(b.plan.Kept, Leftover{
		Object: l.From, Mode: b.earlier.modeOfLimit(c.ref, resourceType), ResourceType: resourceType, ConsumerRef: &c.ref, Limit: &amount,
	})
	return true
}

// set sets the amount of an account for the consumer of a limit.
func (b *builder) set(l *Limit, a account, m measure, amount int64) *consumer {
	resourceType := a.resourceType(b.source)
	b.accounts[resourceType], b.measures[resourceType] = a, m
	c := b.consumerOf(l)
	c.limits[resourceType] = amount
	return c
}

// limitOf returns the amount set until now for the consumer of a limit, if there is one.
func (b *builder) limitOf(l *Limit, resourceType string) (int64, bool) {
	c := b.consumers[consumerKey(l)]
	if c == nil {
		return 0, false
	}
	amount, isLimited := c.limits[resourceType]
	return amount, isLimited
}

func consumerKey(l *Limit) string { return l.Namespace + "/" + l.Consumer }

func (b *builder) consumerOf(l *Limit) *consumer {
	key := consumerKey(l)
	if b.consumers[key] == nil {
		b.consumers[key] = &consumer{
			ref:     quotav1alpha1.ConsumerRef{APIGroup: consumerGroup, Kind: consumerKind, Namespace: l.Namespace, Name: l.Consumer},
			selects: l.Select, limits: map[string]int64{},
		}
	}
	return b.consumers[key]
}

func (b *builder) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{quotav1alpha1.LabelImportedFrom: b.source}}
}

// nameOf returns a distinct name with readable parts at its start.
func (b *builder) nameOf(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.Join(parts, "-")))
	const readableMax = 50
	readable = strings.Trim(readable[:min(len(readable), readableMax)], "-")
	return readable + "-" + naming.Suffix(append([]string{b.source}, parts...)...)
}

func (b *builder) addRegistrations() {
	for _, resourceType := range sortedKeys(b.accounts) {
		m := b.measures[resourceType]
		kind := quotav1alpha1.RegistrationTypeAllocation
		if m.amount == "" {
			kind = quotav1alpha1.RegistrationTypeEntity
		}
		r := &quotav1alpha1.ResourceRegistration{ObjectMeta: b.meta(b.nameOf(resourceType)), Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: resourceType, Type: kind, Description: fmt.Sprintf("%s, as %ss limit it", b.accounts[resourceType].name, b.source),
			ConsumerTypeRef: quotav1alpha1.ConsumerTypeRef{APIGroup: consumerGroup, Kind: consumerKind},
			BaseUnit:        m.unit.base, DisplayUnit: m.unit.display, UnitConversionFactor: m.unit.factor,
			ClaimingResources: []quotav1alpha1.ClaimingResource{{APIGroup: m.kind.Group, Kind: m.kind.Kind}},
		}}
		b.plan.Registrations = append(b.plan.Registrations, r)
	}
}

// kinds returns the kinds of the policies.
func (p *Plan) kinds() []quotav1alpha1.ClaimTriggerResource {
	var all []quotav1alpha1.ClaimTriggerResource
	for _, policy := range p.Policies {
		if !slices.Contains(all, policy.Spec.Trigger.Resource) {
			all = append(all, policy.Spec.Trigger.Resource)
		}
	}
	slices.SortFunc(all, func(a, b quotav1alpha1.ClaimTriggerResource) int {
		return cmp.Or(cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}
