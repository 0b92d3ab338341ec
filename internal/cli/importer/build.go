package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/naming"
)

const (
	// LabelImportedFrom is, on every object of an import, the former system.
	LabelImportedFrom = quotakinds.LabelImportedFrom
	// LabelImportedLimits is, on a namespace with limits of its own, the resources of these limits.
	LabelImportedLimits = quotav1alpha1.GroupName + "/imported-limits"
	// AnnotationImportedInPlace is "true" on an object older than its import. A removal keeps the object.
	AnnotationImportedInPlace = quotav1alpha1.GroupName + "/imported-in-place"
	// AnnotationImportedOf is, on an imported grant, the objects of the former system with its amounts.
	AnnotationImportedOf = quotav1alpha1.GroupName + "/imported-of"

	// typesMax is how many resource types a policy may request, and allowancesMax how many a grant may have.
	typesMax, allowancesMax = 20, 20
)

// consumerGroup and consumerKind are the kind of imported consumers. ResourceRegistrations cannot name Namespaces,
// because these have no API group.
var consumerGroup, consumerKind = quotakinds.Consumers.Group, quotakinds.Consumers.Kind

// account is one resource of one consumer in some scopes.
type account struct {
	name   corev1.ResourceName
	scopes []corev1.ScopedResourceSelectorRequirement
}

// resourceType names the account in grants, such as resourcequota/best-effort/pods.
func (a account) resourceType(source string) string {
	if scope := scopeName(a.scopes); scope != "" {
		return source + "/" + scope + "/" + string(a.name)
	}
	return source + "/" + string(a.name)
}

// consumer is a consumer with its limits.
type consumer struct {
	ref     quotav1alpha1.ConsumerRef
	selects Selection
	limits  map[string]int64 // by resource type
	from    map[string]bool
}

// Plan has the objects of an import.
type Plan struct {
	Registrations []*quotav1alpha1.ResourceRegistration
	Grants        []*quotav1alpha1.ResourceGrant
	Policies      []*quotav1alpha1.ClaimCreationPolicy
	GrantPolicies []*quotav1alpha1.GrantCreationPolicy
	// Consumers are the consumers to create.
	Consumers []quotav1alpha1.ConsumerRef
	// Profiles are the values of [LabelImportedLimits] by namespace.
	Profiles map[string]string
	// TakenOver are the limits in it.
	TakenOver []TakenOver
	Notes     []Note

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
	// Hard is the amount in the former system, and Limit the same in base units.
	Hard  string `json:"hard,omitempty"`
	Limit int64  `json:"limit"`
}

// builder makes a plan of limits.
type builder struct {
	source    string
	mapper    apimeta.RESTMapper
	plan      *Plan
	consumers map[string]*consumer
	accounts  map[string]account
	measures  map[string]measure
}

// Build plans the replacement of limits. It is pure but for the kinds known to the mapper.
func Build(source string, mapper apimeta.RESTMapper, limits []Limit) *Plan {
	b := &builder{
		source: source, mapper: mapper, plan: &Plan{Profiles: map[string]string{}, selections: map[string]Selection{}},
		consumers: map[string]*consumer{}, accounts: map[string]account{}, measures: map[string]measure{},
	}
	for i := range limits {
		b.add(&limits[i])
	}
	b.noteFinished()
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
	for _, scope := range l.Scopes {
		if _, err := scopeCondition(scope); err != nil {
			b.note(l.From, err.Error()+": keep it")
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Hard)) {
		what := l.From + ": " + string(name)
		m, err := measureOf(b.mapper, name)
		if err != nil {
			b.note(what, err.Error())
			continue
		}
		amount, err := amountOf(l.Hard[name], m.unit)
		if err != nil {
			b.note(what, err.Error())
			continue
		}
		a := account{name, l.Scopes}
		resourceType := a.resourceType(b.source)
		b.accounts[resourceType], b.measures[resourceType] = a, m
		c := b.consumerOf(l)
		if before, isLimited := c.limits[resourceType]; isLimited {
			b.note(what, fmt.Sprintf("%s is limited twice for %s; the lower one is taken over", name, l.Consumer))
			amount = min(amount, before)
		}
		c.limits[resourceType] = amount
		c.from[l.From] = true
		b.plan.TakenOver = append(b.plan.TakenOver, TakenOver{l.From, string(name), c.ref, resourceType, quantityText(l.Hard[name]), amount})
	}
}

func quantityText(q resource.Quantity) string { return q.String() }

// noteFinished notes how Bursar counts finished Pods.
func (b *builder) noteFinished() {
	for _, m := range b.measures {
		if m.kind == pods && m.amount != "" {
			b.note("finished Pods", "a ResourceQuota returns their quota when they end, and Bursar when they are deleted or changed; "+
				"Bursar does not charge Pods that finished before the import")
			return
		}
	}
}

func (b *builder) consumerOf(l *Limit) *consumer {
	key := l.Namespace + "/" + l.Consumer
	if b.consumers[key] == nil {
		b.consumers[key] = &consumer{
			ref:     quotav1alpha1.ConsumerRef{APIGroup: consumerGroup, Kind: consumerKind, Namespace: l.Namespace, Name: l.Consumer},
			selects: l.Select, limits: map[string]int64{}, from: map[string]bool{},
		}
	}
	return b.consumers[key]
}

func (b *builder) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelImportedFrom: b.source}}
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

func (b *builder) addGrants(c *consumer) {
	from := strings.Join(sortedKeys(c.from), ", ")
	part := 0
	for types := range slices.Chunk(sortedKeys(c.limits), allowancesMax) {
		part++
		name := "imported-" + b.source
		if !c.selects.isOwn() {
			name = b.nameOf(c.ref.Name)
		}
		if part > 1 {
			name += fmt.Sprint("-", part)
		}
		g := &quotav1alpha1.ResourceGrant{ObjectMeta: b.meta(name), Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: c.ref}}
		g.Namespace, g.Annotations = c.ref.Namespace, map[string]string{AnnotationImportedOf: from}
		for _, resourceType := range types {
			g.Spec.Allowances = append(g.Spec.Allowances, quotav1alpha1.Allowance{
				ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: c.limits[resourceType]}},
			})
		}
		b.plan.Grants = append(b.plan.Grants, g)
	}
}

// charged are the namespaces and the consumer of a policy.
type charged struct {
	name    string
	ref     quotav1alpha1.ConsumerRef
	selects Selection
	types   []string
}

// addPolicies adds the policies. Namespaces with limits of the same resources share theirs.
func (b *builder) addPolicies(consumers []string) {
	profiles := map[string]charged{}
	var all []charged
	for _, key := range consumers {
		c := b.consumers[key]
		types := sortedKeys(c.limits)
		if !c.selects.isOwn() {
			all = append(all, charged{c.ref.Name, c.ref, c.selects, types})
			continue
		}
		profile := b.source + "-" + naming.Suffix(types...)
		b.plan.Profiles[c.ref.Namespace] = profile
		profiles[profile] = charged{
			name: profile, types: types,
			ref: quotav1alpha1.ConsumerRef{
				APIGroup: consumerGroup, Kind: consumerKind, Namespace: "{{.trigger.metadata.namespace}}", Name: "{{.trigger.metadata.namespace}}",
			},
			selects: Selection{Labels: &metav1.LabelSelector{MatchLabels: map[string]string{LabelImportedLimits: profile}}},
		}
	}
	for _, profile := range sortedKeys(profiles) {
		all = append(all, profiles[profile])
	}
	for _, c := range all {
		b.addPoliciesOf(c)
	}
}

// addPoliciesOf adds a policy for each kind and scope, and more if there are many resources.
func (b *builder) addPoliciesOf(c charged) {
	groups := map[string][]string{}
	for _, resourceType := range c.types {
		key := b.measures[resourceType].kind.String() + " " + scopeName(b.accounts[resourceType].scopes)
		groups[key] = append(groups[key], resourceType)
	}
	for _, key := range sortedKeys(groups) {
		part := 0
		for types := range slices.Chunk(groups[key], typesMax) {
			part++
			b.plan.Policies = append(b.plan.Policies, b.policy(c, types, part))
		}
	}
}

func (b *builder) policy(c charged, types []string, part int) *quotav1alpha1.ClaimCreationPolicy {
	kind, scopes := b.measures[types[0]].kind, b.accounts[types[0]].scopes
	number := ""
	if part > 1 {
		number = fmt.Sprint(part)
	}
	name := b.nameOf(c.name, kind.Kind, kind.Group, scopeName(scopes), number)
	p := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: b.meta(name)}
	root := "trigger" // a Namespace's own labels select it
	if kind != namespaceKind {
		root, b.plan.selections[name] = "namespaceObject", c.selects
	}
	p.Spec.EnforcementMode = quotav1alpha1.EnforcementModeAudit
	p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}
	p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate}
	for _, condition := range c.selects.conditions(root) {
		p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: condition})
	}
	for _, scope := range scopes {
		condition, _ := scopeCondition(scope) //nolint:errcheck // add has checked it
		p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: condition})
	}
	template := &p.Spec.Target.ResourceClaimTemplate
	template.Metadata.Labels = map[string]string{LabelImportedFrom: b.source}
	template.Spec.ConsumerRef = c.ref
	for _, resourceType := range types {
		m := b.measures[resourceType]
		request := quotav1alpha1.ResourceRequestTemplate{ResourceType: resourceType, AmountExpression: m.amount}
		if m.amount == "" {
			request.Amount = 1
		}
		if m.followsUpdates {
			p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate}
		}
		template.Spec.Requests = append(template.Spec.Requests, request)
	}
	return p
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
