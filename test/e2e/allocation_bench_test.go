package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
)

// BenchmarkAllocations measures raises of a ResourceQuota with 2,000 projects under 100 allocations and under one. It
// compares capped ResourceQuotas, ones without a cap, and ones on a server without allocations, where the API server
// calls no webhook. It also measures the time from labelling a namespace until its allocation counts it. The
// percentiles are of single requests by one client. The client sends 20 a second, or as fast as the server answers.
//
//	go test ./test/e2e -run '^$' -bench Allocations -benchtime 400x
func BenchmarkAllocations(b *testing.B) {
	for _, shape := range []struct{ projects, allocations int }{{2000, 100}, {2000, 1}} {
		b.Run(fmt.Sprintf("%d-under-%d", shape.projects, shape.allocations), func(b *testing.B) {
			s := newBenchScene(b, shape.projects, shape.allocations)
			for _, rate := range []int{20, 1000} {
				b.Run(fmt.Sprintf("no-allocation-%d-a-second", rate), func(b *testing.B) { s.raise(b, s.free, rate) })
			}
			s.allocate(b)
			for _, rate := range []int{20, 1000} {
				b.Run(fmt.Sprintf("not-capped-%d-a-second", rate), func(b *testing.B) { s.raise(b, s.free, rate) })
				b.Run(fmt.Sprintf("capped-%d-a-second", rate), func(b *testing.B) { s.raise(b, s.capped, rate) })
			}
			b.Run("label", s.label)
			if err := admin.DeleteAllOf(b.Context(), &quotav1alpha1.ResourceQuotaAllocation{}); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// benchScene has projects spread evenly over allocations. Half of the projects are capped.
type benchScene struct {
	name         string
	capped, free []string
	allocations  int
}

func newBenchScene(b *testing.B, projects, allocations int) *benchScene {
	b.Helper()
	s := &benchScene{name: fmt.Sprintf("bench-%d", allocations), allocations: allocations}
	var group errgroup.Group
	group.SetLimit(32)
	for i := range projects + 100 {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.name, i)}}
		if i < projects {
			namespace.Labels = map[string]string{s.name: strconv.Itoa(i % allocations)}
			s.capped = append(s.capped, namespace.Name)
		} else {
			s.free = append(s.free, namespace.Name)
		}
		group.Go(func() error {
			if err := admin.Create(b.Context(), namespace); err != nil {
				return err
			}
			return admin.Create(b.Context(), &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"},
				Spec:       corev1.ResourceQuotaSpec{Hard: list("count/secrets=1", "count/configmaps=1", "pods=10")},
			})
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return s
}

// allocate caps the projects, and waits until the allocations count them.
func (s *benchScene) allocate(b *testing.B) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(32)
	for i := range s.allocations {
		group.Go(func() error {
			return admin.Create(b.Context(), &quotav1alpha1.ResourceQuotaAllocation{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.name, i)},
				Spec: quotav1alpha1.ResourceQuotaAllocationSpec{
					Selector:   metav1.LabelSelector{MatchLabels: map[string]string{s.name: strconv.Itoa(i)}},
					Allocation: corev1.ResourceQuotaSpec{Hard: list("count/secrets=1000000", "count/configmaps=1000000", "pods=1000000")},
				},
			})
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	for i := range s.allocations {
		s.waitSecrets(b, i, int64(len(s.capped)/s.allocations))
	}
}

// waitSecrets waits until an allocation's status shows so many secrets in use.
func (s *benchScene) waitSecrets(b *testing.B, allocation int, want int64) {
	b.Helper()
	await.NoError(b, 5*time.Minute, func() error {
		a := &quotav1alpha1.ResourceQuotaAllocation{}
		if err := admin.Get(b.Context(), client.ObjectKey{Name: fmt.Sprintf("%s-%d", s.name, allocation)}, a); err != nil {
			return err
		}
		if got := a.Status.Allocated.Used[secrets]; got.Value() < want {
			return fmt.Errorf("%s of %d are taken of allocation %d", got.String(), want, allocation)
		}
		return nil
	})
}

// raise raises one ResourceQuota after the other, at most so many in a second.
func (s *benchScene) raise(b *testing.B, namespaces []string, rate int) {
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	var took []time.Duration
	before := cpuTime()
	for i := range b.N {
		<-ticker.C
		quota := &corev1.ResourceQuota{}
		err := admin.Get(b.Context(), client.ObjectKey{Namespace: namespaces[(i*7)%len(namespaces)], Name: "default"}, quota)
		if err != nil {
			b.Fatal(err)
		}
		more := quota.Spec.Hard[secrets]
		more.Add(list("count/secrets=1")[secrets])
		quota.Spec.Hard[secrets] = more
		began := time.Now()
		if err := admin.Update(b.Context(), quota); apierrors.IsConflict(err) {
			continue // in conflict with the controller of ResourceQuotas, which writes the usage
		} else if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	report(b, took)
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(residentMiB()), "MiB")
}

// label labels namespaces without a cap, one after the other.
func (s *benchScene) label(b *testing.B) {
	var took []time.Duration
	for range min(b.N, 10) {
		a := &quotav1alpha1.ResourceQuotaAllocation{}
		if err := admin.Get(b.Context(), client.ObjectKey{Name: s.name + "-0"}, a); err != nil {
			b.Fatal(err)
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.free[0]}}
		s.free = s.free[1:]
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:"0"}}}`, s.name))
		used := a.Status.Allocated.Used[secrets]
		began := time.Now()
		if err := admin.Patch(b.Context(), namespace, patch); err != nil {
			b.Fatal(err)
		}
		s.waitSecrets(b, 0, used.Value()+1)
		took = append(took, time.Since(began))
	}
	report(b, took)
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// cpuTime and residentMiB are of this process, with the server, its etcd and the client in it.
func cpuTime() time.Duration {
	const ticksPerSecond = 100
	content, _ := os.ReadFile("/proc/self/stat")
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

func residentMiB() int {
	content, _ := os.ReadFile("/proc/self/statm")
	pages, _ := strconv.Atoi(strings.Fields(string(content))[1])
	return pages * os.Getpagesize() >> 20
}
