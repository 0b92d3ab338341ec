// Package naming computes the names of objects that Bursar creates. A name is the same in every replica and after every
// restart, and different meanings have different names. It is pure, and any package may import it.
package naming

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The names of Bursar's objects in its system namespace.
const (
	// CertificateSecret has the certificate of the webhooks, unless the configuration names another Secret.
	CertificateSecret = "bursar-webhooks-tls"
	// CallersSuffix is the suffix of the Secret with the key of callers. The prefix is the name of the certificate's
	// Secret.
	CallersSuffix = "-callers"
	// LeaderLease is the Lease of leader election. It exists in every control plane where Bursar has run: it tells the
	// system namespace.
	LeaderLease = "bursar-leader"
)

// prefixMax bounds the readable part of a name. With the hash a name stays within the 253 characters of a DNS subdomain
// and within the width of a terminal.
const prefixMax = 80

// hashEncoding is lower-case base32: it has only characters of DNS labels.
var hashEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Ledger returns the name of a consumer's ConsumerLedger. API group and namespace count: two consumers with the same
// kind and name have different ledgers.
func Ledger(consumer quotav1alpha1.ConsumerRef) string {
	return join([]string{consumer.Kind, consumer.Name},
		consumer.APIGroup, consumer.Kind, consumer.Namespace, consumer.Name)
}

// Bucket returns the name of the AllowanceBucket of a consumer, a resource type and, unless they are empty, dimensions.
// Its form is in the API reference: consumer kind, consumer name, resource type, hash; the values of the dimensions, in
// the order of their keys, come before the hash.
func Bucket(consumer quotav1alpha1.ConsumerRef, resourceType string, dimensions map[string]string) string {
	readable := []string{consumer.Kind, consumer.Name, resourceType}
	identity := []string{consumer.APIGroup, consumer.Kind, consumer.Namespace, consumer.Name, resourceType}
	for _, key := range slices.Sorted(maps.Keys(dimensions)) {
		readable = append(readable, dimensions[key])
		identity = append(identity, key, dimensions[key])
	}
	return join(readable, identity...)
}

// EffectiveGrant returns the name of the EffectiveResourceGrant of a consumer and a resource type. It equals the name
// of the bucket for the whole type.
func EffectiveGrant(consumer quotav1alpha1.ConsumerRef, resourceType string) string {
	return Bucket(consumer, resourceType, nil)
}

// Suffix returns a short hash of the identity. It makes a name distinct if the name is taken.
func Suffix(identity ...string) string {
	return hash(identity)[:8]
}

// join makes a name from readable parts and the hash of the identity. Only the hash distinguishes names: readable parts
// may be cut and have characters replaced.
func join(readable []string, identity ...string) string {
	prefix := sanitize(strings.Join(readable, "-"))
	if len(prefix) > prefixMax {
		prefix = prefix[:prefixMax]
	}
	prefix = strings.Trim(prefix, "-")
	if prefix == "" {
		return hash(identity)
	}
	return prefix + "-" + hash(identity)
}

// hash digests the parts with their boundaries: ("ab", "c") and ("a", "bc") differ. Its 80 bits make a collision among
// a million names a one in 10^12 event. A caller that finds an object of another identity under a name must not change
// it.
func hash(parts []string) string {
	digest := sha256.New()
	for _, part := range parts {
		digest.Write([]byte(part))
		digest.Write([]byte{0})
	}
	return hashEncoding.EncodeToString(digest.Sum(nil)[:10])
}

// sanitize lower-cases s and replaces every character that a DNS label cannot have by a dash.
func sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		default:
			return '-'
		}
	}, s)
}

// ConsumerName is the placeholder of a consumer's name in the template of its namespace.
const ConsumerName = "{{name}}"

// ConsumerNamespaces names the namespaces with the quota objects of consumers.
type ConsumerNamespaces struct {
	// Templates are the templates of kinds, with [ConsumerName] in them.
	Templates map[schema.GroupKind]string
	// System is the namespace of all other consumers.
	System string
}

// Of returns the namespace with the quota objects of a consumer.
func (n *ConsumerNamespaces) Of(consumer quotav1alpha1.ConsumerRef) string {
	return NamespaceOf(consumer, n.Templates, n.System)
}

// NamespaceOf returns the namespace with the quota objects of a consumer: its own namespace, the one of the template
// for its kind, or the system namespace.
func NamespaceOf(consumer quotav1alpha1.ConsumerRef, templates map[schema.GroupKind]string, systemNamespace string) string {
	if consumer.Namespace != "" {
		return consumer.Namespace
	}
	template, ok := templates[schema.GroupKind{Group: consumer.APIGroup, Kind: consumer.Kind}]
	if !ok {
		return systemNamespace
	}
	return ConsumerNamespace(template, consumer.Name)
}

// ConsumerNamespace returns the namespace of a consumer by the template for its kind.
func ConsumerNamespace(template, consumer string) string {
	return strings.ReplaceAll(template, ConsumerName, consumer)
}

// CompareConsumers orders consumers as people read them: by kind, namespace, name and then group.
func CompareConsumers(a, b quotav1alpha1.ConsumerRef) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.APIGroup, b.APIGroup))
}
