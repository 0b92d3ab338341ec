package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unit is the unit of a resource.
type unit struct {
	base, display string
	factor        int64
}

var (
	cores = unit{"millicore", "core", 1000}
	bytes = unit{"byte", "GiB", 1 << 30}
)

func counted(what string) unit { return unit{what, what, 1} }

// measure describes how to count a resource of ResourceQuotas.
type measure struct {
	kind schema.GroupVersionKind
	unit unit
	// amount is the amount of an object in CEL. It is empty if each object counts 1.
	amount string
}

// followsUpdates reports whether a policy for the measure follows updates of objects. It does for kinds with amounts
// that an update can change, even if a limit only counts the objects. So all limits of such a kind share a claim. It
// also does for namespaces, because a label of their own makes them those of a tenant. For all other kinds a review of
// each update would cost much and change nothing.
func (m *measure) followsUpdates() bool {
	return slices.Contains([]schema.GroupVersionKind{pods, services, volumes, namespaceKind}, m.kind)
}

var (
	pods          = corev1.SchemeGroupVersion.WithKind("Pod")
	volumes       = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	services      = corev1.SchemeGroupVersion.WithKind("Service")
	namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")
)

const (
	countPrefix        = "count/"
	storageClassSuffix = ".storageclass.storage.k8s.io/"
	deviceClassSuffix  = ".deviceclass.resource.k8s.io/devices"
	// countedNamespaces is the resource limited by a Capsule tenant. ResourceQuotas have no name for it.
	countedNamespaces corev1.ResourceName = "namespaces"
	// imageStreams is the number of ImageStreams, as OpenShift names it.
	imageStreams corev1.ResourceName = "openshift.io/imagestreams"
)

// legacyCounts are the names of objects without the prefix count/.
var legacyCounts = map[corev1.ResourceName]schema.GroupVersionKind{
	corev1.ResourceConfigMaps:             corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.ResourceSecrets:                corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.ResourceReplicationControllers: corev1.SchemeGroupVersion.WithKind("ReplicationController"),
	corev1.ResourceQuotas:                 corev1.SchemeGroupVersion.WithKind("ResourceQuota"),
	corev1.ResourceServices:               services,
	corev1.ResourcePersistentVolumeClaims: volumes,
	countedNamespaces:                     namespaceKind,
}

// measureOf returns the measure of a resource, or the reason why there is none.
func measureOf(mapper apimeta.RESTMapper, name corev1.ResourceName) (measure, error) {
	if kind, isLegacy := legacyCounts[name]; isLegacy {
		return measure{kind: kind, unit: counted(strings.ToLower(kind.Kind))}, nil
	}
	text := string(name)
	switch {
	case strings.HasPrefix(text, countPrefix):
		return objectCount(mapper, strings.TrimPrefix(text, countPrefix))
	case strings.HasSuffix(text, deviceClassSuffix):
		return measure{}, fmt.Errorf("devices are not counted by policies: keep a ResourceQuota for them")
	case strings.Contains(text, storageClassSuffix):
		class, rest, _ := strings.Cut(text, storageClassSuffix)
		return volumeMeasure(corev1.ResourceName(rest), class)
	case name == imageStreams:
		return objectCount(mapper, "imagestreams.image.openshift.io")
	case name == corev1.ResourceRequestsStorage:
		return volumeMeasure(name, "")
	case name == corev1.ResourceServicesNodePorts:
		return measure{kind: services, unit: counted("port"), amount: nodePorts}, nil
	case name == corev1.ResourceServicesLoadBalancers:
		return measure{kind: services, unit: counted("load balancer"), amount: `trigger.spec.type == "LoadBalancer" ? 1 : 0`}, nil
	default:
		return podMeasure(name)
	}
}

// nodePorts counts the ports as Kubernetes does: all, unless the Service suppresses their allocation.
const nodePorts = `trigger.spec.type == "NodePort" || trigger.spec.type == "LoadBalancer" && trigger.spec.?allocateLoadBalancerNodePorts.orValue(true) ? ` +
	`size(trigger.spec.?ports.orValue([])) : trigger.spec.type == "LoadBalancer" ? ` +
	`size(trigger.spec.?ports.orValue([]).filter(p, p.?nodePort.orValue(0) != 0)) : 0`

// uncountable are groups with resources that policies cannot protect, or protect without a webhook.
var uncountable = []string{"coordination.k8s.io", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "admissionregistration.k8s.io", "quota.miloapis.com"}

func objectCount(mapper apimeta.RESTMapper, name string) (measure, error) {
	resource := schema.ParseGroupResource(name)
	mapping, err := mappingOf(mapper, resource)
	if err != nil {
		return measure{}, err
	}
	kind := mapping.GroupVersionKind
	if mapping.Scope.Name() != apimeta.RESTScopeNameNamespace {
		return measure{}, fmt.Errorf("%s are in no namespace, so no quota of namespaces counts them", resource)
	}
	for _, group := range uncountable {
		if kind.Group == group || kind.Group == "" && kind.Kind == "Event" {
			return measure{}, fmt.Errorf("policies cannot protect %s: keep a ResourceQuota for them", resource)
		}
	}
	return measure{kind: kind, unit: counted(strings.ToLower(kind.Kind))}, nil
}

// errNotCounted is the reason for names that Kubernetes accepts in a ResourceQuota and never counts.
var errNotCounted = errors.New("a ResourceQuota counts nothing by this name")

// mappingOf returns the mapping of exactly this resource. A mapper also finds resources by a part of their name.
func mappingOf(mapper apimeta.RESTMapper, resource schema.GroupResource) (*apimeta.RESTMapping, error) {
	err := fmt.Errorf("the server has no resource %s", resource)
	kinds, errKinds := mapper.KindsFor(resource.WithVersion(""))
	if errKinds != nil {
		return nil, err
	}
	for _, kind := range kinds {
		mapping, errMapping := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		switch {
		case errMapping != nil:
		case mapping.Resource.GroupResource() == resource:
			return mapping, nil
		default:
			err = fmt.Errorf("%w, but %s by %s%s", errNotCounted, kind.Kind, countPrefix, mapping.Resource.GroupResource())
		}
	}
	return nil, err
}

// volumeClass is the storage class of a claim. The annotation is older than the field, and comes first.
const volumeClass = `trigger.metadata.?annotations[?"volume.beta.kubernetes.io/storage-class"].orValue(trigger.spec.?storageClassName.orValue(""))`

// volumeSize is the request of a volume claim, or more after a withdrawn expansion.
const volumeSize = `[quantity(trigger.spec.?resources.?requests[?"storage"].orValue("0")), quantity(trigger.?status.?allocatedResources[?"storage"].orValue("0"))].max()`

func volumeMeasure(name corev1.ResourceName, class string) (measure, error) {
	m := measure{kind: volumes, unit: bytes}
	switch name {
	case corev1.ResourceRequestsStorage:
		m.amount = volumeSize
	case corev1.ResourcePersistentVolumeClaims:
		m.unit, m.amount = counted("persistentvolumeclaim"), "1"
	default:
		return m, fmt.Errorf("a storage class has no %s", name)
	}
	if class != "" {
		zero := "0"
		if name == corev1.ResourceRequestsStorage {
			zero = `quantity("0")`
		}
		m.amount = fmt.Sprintf("%s == %q ? %s : %s", volumeClass, class, m.amount, zero)
	}
	return m, nil
}

// amountOf returns an amount of a ResourceQuota in base units, rounded down: an import never raises a limit.
func amountOf(quantity resource.Quantity, u unit) (int64, error) {
	scaled := quantity.DeepCopy()
	if u == cores {
		scaled.Mul(cores.factor)
	}
	whole, isExact := scaled.AsInt64()
	if !isExact {
		whole = scaled.Value()
		if resource.NewQuantity(whole, resource.DecimalSI).Cmp(scaled) > 0 {
			whole-- // Value rounds up
		}
		if scaled.CmpInt64(whole) > 0 && scaled.CmpInt64(whole+1) >= 0 {
			return 0, fmt.Errorf("%s is more than Bursar counts", quantity.String())
		}
	}
	if whole < 0 {
		return 0, fmt.Errorf("%s is negative", quantity.String())
	}
	return whole, nil
}
