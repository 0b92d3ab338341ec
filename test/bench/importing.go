package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// importedNamespaces is the number of imported namespaces with ResourceQuotas.
	importedNamespaces = 100
	// importedFrom is the value of the label on imported objects.
	importedFrom = "quota.miloapis.com/imported-from"
	// adoptionTimeout bounds the wait until existing objects count.
	adoptionTimeout = time.Hour
)

func importedNamespace(n int) string { return fmt.Sprint("import-", n) }

// measureImport imports the ResourceQuotas of namespaces with many objects, beside creates in them. None of these may
// fail, during the import, while the objects get their claims, and after the policies enforce.
func (b *bench) measureImport(ctx context.Context) error {
	const clients = 8
	connections, err := b.connect(clients)
	if err != nil {
		return err
	}
	for n := range importedNamespaces {
		name := importedNamespace(n)
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "secrets", Namespace: name}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"count/secrets": *resource.NewQuantity(plentyLimit, resource.DecimalSI)},
		}}
		for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, quota} {
			if err := b.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create %s: %w", object.GetName(), err)
			}
		}
	}
	create := func(serial string) operation {
		return func(ctx context.Context, of, n int) error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%s-%d", serial, n)}}
			_, err := connections[of].CoreV1().Secrets(importedNamespace(n%importedNamespaces)).Create(ctx, secret, metav1.CreateOptions{})
			return err
		}
	}
	if r := b.load(ctx, clients, b.adopted, create("standing")); r.failures > 0 {
		return fmt.Errorf("create the objects to import: %w", r.failure)
	}
	fmt.Printf("\nimport of %d ResourceQuotas with %d existing objects, beside creates of %d clients\n", importedNamespaces, b.adopted, clients)
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var failed, created atomic.Int64
	done := make(chan result, 1)
	go func() {
		live := create("live")
		done <- b.load(loading, clients, 1<<40, func(ctx context.Context, of, n int) error {
			err := live(context.WithoutCancel(ctx), of, n) // a cancelled create has not failed
			if created.Add(1); err != nil {
				failed.Add(1)
			}
			return err
		})
	}()
	for _, step := range []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"dry run", func(ctx context.Context) (string, error) { return b.runImport(ctx, "--dry-run") }},
		{"import", func(ctx context.Context) (string, error) { return b.runImport(ctx) }},
		{"adoption", b.awaitAdoption},
		{"enforcing for 10 s", func(ctx context.Context) (string, error) {
			text, err := b.runImport(ctx, "--mode", "Enforce")
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
			}
			return text, err
		}},
	} {
		begin, before := time.Now(), created.Load()
		text, err := step.do(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("    %-20s %8s  beside %d creates, %d failed%s\n", step.name, round(time.Since(begin)), created.Load()-before, failed.Load(), text)
	}
	stop()
	r := <-done
	fmt.Printf("    create beside it all     %s\n", r)
	if r.failures > 0 {
		return fmt.Errorf("%d creates failed: %w", r.failures, r.failure)
	}
	return nil
}

// runImport runs the command, and returns how much memory it took.
func (b *bench) runImport(ctx context.Context, more ...string) (string, error) {
	binary := b.binary
	if binary == "" {
		binary = "bin/bursar"
	}
	command := exec.CommandContext(ctx, binary, append([]string{"import", "--from", "resourcequota"}, more...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(b.system.directory(), "admin.kubeconfig"))
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	usage, isKnown := command.ProcessState.SysUsage().(*syscall.Rusage)
	if !isKnown {
		return "", nil
	}
	return fmt.Sprintf(", at most %d MiB of memory", usage.Maxrss>>10), nil
}

// awaitAdoption waits until the existing objects have their claims.
func (b *bench) awaitAdoption(ctx context.Context) (string, error) {
	adopted := int64(0)
	err := wait.PollUntilContextTimeout(ctx, time.Second, adoptionTimeout, true, func(ctx context.Context) (bool, error) {
		var list quotav1alpha1.ClaimCreationPolicyList
		if err := b.client.List(ctx, &list, client.MatchingLabels{importedFrom: "resourcequota"}); err != nil {
			return false, err
		}
		adopted = 0
		for i := range list.Items {
			a := list.Items[i].Status.Adoption
			if a == nil || a.State != quotav1alpha1.AdoptionComplete {
				return false, nil
			}
			adopted += a.Adopted
		}
		return len(list.Items) > 0, nil
	})
	return fmt.Sprintf(", %d adopted", adopted), err
}
