package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/naming"
)

// namespaceObject and trigger are the variables of policies with the metadata of the selected namespace: the namespace
// of an object, and the object itself if it is a namespace.
const namespaceObject, trigger = "namespaceObject", "trigger"

// part returns the name of a further object for resource types that one object cannot have.
func part(name string, n int) string {
	if n > 1 {
		name += fmt.Sprint("-", n)
	}
	return name
}

// parts divides sorted resource types among objects with room for most each. Types in an object of an earlier import
// stay there: a move would charge or grant them twice, or not at all, until both objects are written. The result is by
// the number of the object, from 1 on.
func parts(types []string, most int, earlierOf func(part int) []string) map[int][]string {
	all := map[int][]string{}
	var rest []string
	last := max(1, (len(types)+most-1)/most)
	for n := 1; n <= last || len(earlierOf(n)) > 0; n++ {
		for _, t := range earlierOf(n) {
			if slices.Contains(types, t) {
				all[n] = append(all[n], t)
			}
		}
	}
	for _, t := range types {
		isPlaced := false
		for _, placed := range all {
			isPlaced = isPlaced || slices.Contains(placed, t)
		}
		if !isPlaced {
			rest = append(rest, t)
		}
	}
	for n := 1; len(rest) > 0; n++ {
		room := min(len(rest), max(0, most-len(all[n])))
		all[n] = append(all[n], rest[:room]...)
		rest = rest[room:]
	}
	for n := range all {
		slices.Sort(all[n])
	}
	return all
}

// addGrants adds the grants of a consumer. The first one has its limits in the former system.
func (b *builder) addGrants(c *consumer) {
	name := "imported-" + b.source
	if !c.selects.isOwn() {
		name = b.nameOf(c.ref.Name)
	}
	all := parts(sortedKeys(c.limits), allowancesMax, func(n int) []string { return b.earlier.granted(c.ref.Namespace, part(name, n)) })
	first := true
	for _, n := range sortedKeys(all) {
		g := &quotav1alpha1.ResourceGrant{ObjectMeta: b.meta(part(name, n)), Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: c.ref}}
		g.Namespace, g.Annotations = c.ref.Namespace, map[string]string{quotav1alpha1.AnnotationImportedOf: strings.Join(c.from(), ", ")}
		if content, err := json.Marshal(c.sources); err == nil && first {
			g.Annotations[quotav1alpha1.AnnotationImportedSource] = string(content)
		}
		first = false
		for _, resourceType := range all[n] {
			g.Spec.Allowances = append(g.Spec.Allowances, quotav1alpha1.Allowance{
				ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: c.limits[resourceType]}},
			})
		}
		b.plan.Grants = append(b.plan.Grants, g)
	}
}

// from returns the names of the objects with the limits of a consumer.
func (c *consumer) from() []string {
	names := map[string]bool{}
	for i := range c.sources {
		names[c.sources[i].From] = true
	}
	return sortedKeys(names)
}

// charged are the namespaces and the consumer of policies.
type charged struct {
	name    string
	ref     quotav1alpha1.ConsumerRef
	selects Selection
	types   []string
	// revision describes the selected namespaces, like that of namespaces with limits of their own.
	revision string
}

// addPolicies adds the policies. All namespaces with limits of their own share theirs.
func (b *builder) addPolicies(consumers []string) {
	var all []charged
	own := map[string]bool{}
	for _, key := range consumers {
		c := b.consumers[key]
		types := sortedKeys(c.limits)
		if !c.selects.isOwn() {
			all = append(all, charged{c.ref.Name, c.ref, c.selects, types, revisionOf("selected", b.selected(c.selects))})
			continue
		}
		for _, resourceType := range types {
			own[resourceType] = true
			b.plan.Limited[c.ref.Namespace] = append(b.plan.Limited[c.ref.Namespace], b.listed(resourceType))
		}
	}
	if len(own) > 0 {
		ref := quotav1alpha1.ConsumerRef{APIGroup: consumerGroup, Kind: consumerKind, Namespace: templateOfNamespace, Name: ownConsumer(b.source, templateOfNamespace)}
		all = append(all, charged{b.source, ref, Selection{}, sortedKeys(own), ""})
	}
	for _, c := range all {
		b.addPoliciesOf(c)
	}
}

// templateOfNamespace is, in the template of a claim, the namespace of its object.
const templateOfNamespace = "{{.trigger.metadata.namespace}}"

// ownConsumer names the consumer of a namespace with limits of its own. Each former system has a consumer of its own
// there.
func ownConsumer(source, namespace string) string {
	if source == "resourcequota" {
		return namespace
	}
	return source + "-" + namespace
}

// listed returns a resource type as the annotation of a namespace lists it.
func (b *builder) listed(resourceType string) string {
	return strings.TrimPrefix(resourceType, b.source+"/")
}

// addPoliciesOf adds the policies of a consumer. The names depend on a kind and a scope, and not on the limited
// resources: with more of them, the same policy charges more, and nothing is charged twice.
//
// A policy that follows updates brings the claims of existing objects in line with its spec. Any other policy only
// makes missing claims, so it has a single resource.
func (b *builder) addPoliciesOf(c charged) {
	groups := map[string][]string{}
	for _, resourceType := range c.types {
		m := b.measures[resourceType]
		names := []string{c.name, m.kind.Kind, m.kind.Group, scopeName(b.accounts[resourceType].scopes)}
		if !m.followsUpdates() {
			names = append(names, b.listed(resourceType))
		}
		name := b.nameOf(names...)
		groups[name] = append(groups[name], resourceType)
	}
	for _, name := range sortedKeys(groups) {
		all := parts(groups[name], typesMax, func(n int) []string { return b.earlier.requested(part(name, n)) })
		for _, n := range sortedKeys(all) {
			b.plan.Policies = append(b.plan.Policies, b.policy(part(name, n), c, all[n]))
		}
	}
}

func (b *builder) policy(name string, c charged, types []string) *quotav1alpha1.ClaimCreationPolicy {
	m, scopes := b.measures[types[0]], b.accounts[types[0]].scopes
	p := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: b.meta(name)}
	root := trigger // a Namespace's own labels select it
	if m.kind != namespaceKind {
		root, b.plan.selections[name] = namespaceObject, c.selects
	}
	p.Spec.EnforcementMode = quotav1alpha1.EnforcementModeAudit
	p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: m.kind.GroupVersion().String(), Kind: m.kind.Kind}
	p.Spec.Trigger.Operations = []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate}
	if m.followsUpdates() {
		p.Spec.Trigger.Operations = append(p.Spec.Trigger.Operations, quotav1alpha1.TriggerOperationUpdate)
	}
	conditions, _ := b.conditions(c.selects, scopes, root) //nolint:errcheck // add has checked them
	for _, condition := range conditions {
		p.Spec.Trigger.Conditions = append(p.Spec.Trigger.Conditions, quotav1alpha1.ConditionExpression{Expression: condition})
	}
	if c.selects.isOwn() {
		first := &p.Spec.Trigger.Conditions[0]
		if !m.followsUpdates() {
			first.Expression = b.isListed(types[0])
		}
		first.Message = b.revision(types)
	} else if m.kind != namespaceKind && len(p.Spec.Trigger.Conditions) > 0 {
		p.Spec.Trigger.Conditions[0].Message = c.revision
	}
	template := &p.Spec.Target.ResourceClaimTemplate
	template.Metadata.Labels = map[string]string{quotav1alpha1.LabelImportedFrom: b.source}
	template.Spec.ConsumerRef = c.ref
	for _, resourceType := range types {
		request := quotav1alpha1.ResourceRequestTemplate{ResourceType: resourceType, AmountExpression: b.amountOf(c.selects, resourceType, b.measures[resourceType])}
		if request.AmountExpression == "" {
			request.Amount = 1
		}
		template.Spec.Requests = append(template.Spec.Requests, request)
	}
	return p
}

// revision describes the namespaces with a limit of one of the resource types. A changed description makes Bursar apply
// the policy to all existing objects again. Otherwise it would not look at those in a namespace with a new limit.
func (b *builder) revision(types []string) string {
	var limited []string
	for _, namespace := range sortedKeys(b.plan.Limited) {
		names := []string{namespace}
		for _, resourceType := range types {
			if name := b.listed(resourceType); slices.Contains(b.plan.Limited[namespace], name) {
				names = append(names, name)
			}
		}
		if len(names) > 1 {
			limited = append(limited, strings.Join(names, ","))
		}
	}
	return revisionOf("with these limits", limited)
}

// selected returns the names of the selected namespaces.
func (b *builder) selected(s Selection) []string {
	var names []string
	for i := range b.namespaces {
		if isSelected, err := s.matches(&b.namespaces[i]); isSelected && err == nil {
			names = append(names, b.namespaces[i].Name)
		}
	}
	return names
}

func revisionOf(are string, namespaces []string) string {
	return fmt.Sprintf("%s %s, revision %s", message.Count(len(namespaces), "namespace", "namespaces"), are, naming.Suffix(namespaces...))
}

// conditions returns the conditions of a policy for objects in selected namespaces and in scopes. root has the metadata
// of the namespace.
func (b *builder) conditions(selects Selection, scopes []corev1.ScopedResourceSelectorRequirement, root string) ([]string, error) {
	all := selects.conditions(root)
	if selects.isOwn() {
		all = []string{fmt.Sprintf("%s.metadata.?annotations[?%q].hasValue()", root, quotav1alpha1.AnnotationImportedLimits+b.source)}
	}
	for _, scope := range scopes {
		condition, err := scopeCondition(scope)
		if err != nil {
			return nil, err
		}
		all = append(all, condition)
	}
	return joined(all)
}

// isListed is true in namespaces with a limit of their own for a resource type.
func (b *builder) isListed(resourceType string) string {
	return fmt.Sprintf(`%q in %s.metadata.?annotations[?%q].orValue("").split(",")`, b.listed(resourceType), namespaceObject, quotav1alpha1.AnnotationImportedLimits+b.source)
}

// amountOf returns the amount of an object in CEL. It is empty if each object counts 1. A policy that follows updates
// is for all namespaces with limits of their own, and an object counts only if its namespace limits the resource type.
func (b *builder) amountOf(selects Selection, resourceType string, m measure) string {
	if !selects.isOwn() || !m.followsUpdates() {
		return m.amount
	}
	amount := m.amount
	if amount == "" {
		amount = "1"
	}
	return fmt.Sprintf("%s ? dyn(%s) : dyn(0)", b.isListed(resourceType), amount)
}

// setModes gives each policy its mode of earlier imports, and finds the policies that stop enforcing.
func (p *Plan) setModes(before *earlier) {
	for _, policy := range p.Policies {
		known := before.policies[policy.Name] != nil
		switch mode := before.modeFor(policy); {
		case mode != "":
			policy.Spec.EnforcementMode = mode
		case len(before.policies) > 0:
			p.Notes = append(p.Notes, Note{"ClaimCreationPolicy " + policy.Name,
				"it is new and has the mode Audit, because the policies of earlier imports have several modes: set its mode with kubectl"})
		}
		_, isInPlace := policy.Annotations[quotav1alpha1.AnnotationImportedMode]
		if isInPlace && !known && policy.IsEnabled() && !isEnforced(policy.Spec.EnforcementMode) {
			p.Audited = append(p.Audited, policy.Name)
		}
	}
}
