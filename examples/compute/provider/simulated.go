package provider

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
)

// resourcesKey is the key of a machine's resources in its ConfigMap.
const resourcesKey = "resources"

// Simulated records machines in ConfigMaps. Nothing runs, and the conditions of the Instances have the reason
// Simulated.
type Simulated struct {
	// Client reads ConfigMaps from the API server, not from a cache.
	Client client.Client
}

// Name implements [Provider].
func (Simulated) Name() string { return "Simulated" }

// Kind implements [Provider].
func (Simulated) Kind() client.Object { return &corev1.ConfigMap{} }

// Get implements [Provider].
func (s Simulated) Get(ctx context.Context, instance *computev1alpha1.Instance) (*Machine, error) {
	note := &corev1.ConfigMap{}
	if found, err := read(ctx, s.Client, instance, note); !found || err != nil {
		return nil, err
	}
	return simulated(note)
}

// Ensure implements [Provider].
func (s Simulated) Ensure(ctx context.Context, instance *computev1alpha1.Instance, resources computev1alpha1.Resources) (*Machine, error) {
	key := keyOf(instance)
	if _, err := read(ctx, s.Client, instance, &corev1.ConfigMap{}); err != nil {
		return nil, err
	}
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, s.Client, note, func() error {
		encoded, err := json.Marshal(resources)
		if err != nil {
			return err
		}
		note.Data = map[string]string{resourcesKey: string(encoded), "image": instance.Spec.Image}
		if note.UID != "" {
			return nil
		}
		return controllerutil.SetControllerReference(instance, note, s.Client.Scheme())
	})
	if err != nil {
		return nil, fmt.Errorf("simulate a machine for Instance %s/%s: %w", instance.Namespace, instance.Name, err)
	}
	return simulated(note)
}

// Delete implements [Provider].
func (s Simulated) Delete(ctx context.Context, instance *computev1alpha1.Instance) (isGone bool, err error) {
	return remove(ctx, s.Client, instance, &corev1.ConfigMap{})
}

func simulated(note *corev1.ConfigMap) (*Machine, error) {
	state := func(is string) State {
		return State{Is: true, Reason: "Simulated", Message: "The machine " + is + " in simulation: there is none"}
	}
	machine := &Machine{Programmed: state("is made"), Running: state("runs"), Ready: state("can be used")}
	if err := json.Unmarshal([]byte(note.Data[resourcesKey]), &machine.Resources); err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s, which notes a simulated machine: %w", note.Namespace, note.Name, err)
	}
	machine.NetworkIP, machine.ExternalIP = addresses(string(note.UID))
	return machine, nil
}

// addresses invents the addresses of a machine: a private one, and one from the range for benchmarks (RFC 2544).
func addresses(uid string) (network, external string) {
	hash := xxhash.Sum64String(uid)
	in := func(prefix [4]byte, bits int, host uint32) string {
		host &= 1<<(32-bits) - 1
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(prefix[:])|host))).String()
	}
	return in([4]byte{10}, 8, uint32(hash)), in([4]byte{198, 18}, 15, uint32(hash>>32))
}
