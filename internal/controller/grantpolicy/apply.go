package grantpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// grantError is the reason why a grant differs from the desired one.
type grantError struct {
	grant *quotav1alpha1.ResourceGrant
	doing string
	err   error
	// ours is true if the controller found the error, and not the API server.
	ours bool
	// where names the control plane, unless it is the local one.
	where string
}

func (e *grantError) Error() string {
	return fmt.Sprintf("%s %s%s: %v", e.doing, describe(e.grant), e.where, e.err)
}

func (e *grantError) Unwrap() error { return e.err }

func (p *controlPlane) problemWith(grant *quotav1alpha1.ResourceGrant, doing string, err error) *grantError {
	return &grantError{grant: grant, doing: doing, err: err, where: p.location()}
}

// location returns the control plane for messages, or "" for the local one.
func (p *controlPlane) location() string {
	if p.ref.IsLocal() {
		return ""
	}
	return " in " + p.ref.String()
}

// process reconciles the grants of a key.
func (p *controlPlane) process(ctx context.Context, k key) error {
	p.work.RLock()
	defer p.work.RUnlock()
	if !p.beginWork(k) {
		return nil // the next list queues all keys again
	}
	defer p.endWork(k)
	desired, known := p.owner.desiredGrant(k, p.ref)
	if !known {
		return nil
	}
	// Deletion comes first: for a moment a consumer may have less than it should, never more.
	for _, grant := range p.grantsOf(k) {
		if desired == nil || nameOf(grant) != nameOf(desired) {
			if err := p.delete(ctx, k, grant); err != nil {
				return p.probeOnError(err)
			}
		}
	}
	if desired != nil {
		if err := p.ensure(ctx, k, desired); err != nil {
			return p.probeOnError(err)
		}
	}
	p.done(k)
	return nil
}

// beginWork reports whether work on a key may begin now.
func (p *controlPlane) beginWork(k key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.listed || p.problem != nil {
		return false
	}
	p.busy[k.policy]++
	return true
}

func (p *controlPlane) endWork(k key) {
	p.mu.Lock()
	if p.busy[k.policy]--; p.busy[k.policy] == 0 {
		delete(p.busy, k.policy)
	}
	isLast := p.busy[k.policy] == 0 && len(p.grants.byPolicy[k.policy]) == 0
	p.mu.Unlock()
	if isLast {
		p.owner.wakeIfClean(k.policy)
	}
}

// wakeIfClean queues a policy that may wait for the deletion of its grants.
func (c *Controller) wakeIfClean(policy types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.policies[policy]
	if s == nil {
		return
	}
	hasLeft := s.object.Spec.Target.ParentContext == nil && slices.Contains(s.object.Finalizers, quotav1alpha1.FinalizerParentGrants)
	if s.mode == modeDelete && len(s.object.Finalizers) > 0 || hasLeft {
		c.wakeLocked(policy)
	}
}

// probeOnError returns the error. If another control plane may be unreachable, it also probes it.
func (p *controlPlane) probeOnError(err error) error {
	if !p.ref.IsLocal() && !isAnswer(err) {
		if problem := (*grantError)(nil); !errors.As(err, &problem) || !problem.ours {
			p.probe(listError(err))
		}
	}
	return err
}

func (p *controlPlane) grantsOf(k key) []*quotav1alpha1.ResourceGrant {
	p.mu.Lock()
	defer p.mu.Unlock()
	grants := make([]*quotav1alpha1.ResourceGrant, 0, len(p.grants.byKey[k]))
	for _, grant := range p.grants.byKey[k] {
		grants = append(grants, grant)
	}
	return grants
}

func (p *controlPlane) knownGrant(k key, name types.NamespacedName) *quotav1alpha1.ResourceGrant {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grants.byKey[k][name]
}

func (p *controlPlane) recordGrant(grant *quotav1alpha1.ResourceGrant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants.put(grant)
}

func (p *controlPlane) forgetGrant(grant *quotav1alpha1.ResourceGrant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants.remove(nameOf(grant), grant.UID)
}

// delete deletes a grant. It forgets the grant only once it is gone, because another client's finalizer may delay the
// end.
func (p *controlPlane) delete(ctx context.Context, k key, grant *quotav1alpha1.ResourceGrant) error {
	if grant.DeletionTimestamp != nil {
		return nil
	}
	err := p.api.Delete(ctx, grant.DeepCopy(), client.Preconditions{UID: &grant.UID})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another grant has its name
		p.forgetGrant(grant)
		return nil
	case err != nil:
		return p.problemWith(grant, "delete", err)
	}
	p.owner.metrics.wrote(wroteDelete)
	p.owner.recordGrantEvent(k, grant, normal, quotav1alpha1.EventGrantDeleted, "Delete", "deleted %s%s of %s %s", describe(grant), p.location(),
		grant.Spec.ConsumerRef.Kind, grant.Spec.ConsumerRef.Name)
	if len(grant.Finalizers) == 0 {
		p.forgetGrant(grant)
	}
	return nil
}

// ensure creates a grant, or corrects the existing one.
func (p *controlPlane) ensure(ctx context.Context, k key, desired *quotav1alpha1.ResourceGrant) error {
	stored := p.knownGrant(k, nameOf(desired))
	if stored == nil {
		if err := p.owner.record(ctx, k, p.ref); err != nil {
			return &grantError{grant: desired, doing: "create", ours: true, where: p.location(), err: err}
		}
		grant := created(desired, time.Now())
		err := p.api.Create(ctx, grant)
		if err == nil {
			p.recordGrant(grant)
			p.owner.metrics.wrote(wroteNew)
			p.owner.recordGrantEvent(k, grant, normal, quotav1alpha1.EventGrantCreated, "Create", "created %s%s for %s %s", describe(grant), p.location(),
				grant.Spec.ConsumerRef.Kind, grant.Spec.ConsumerRef.Name)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return p.createFailed(k, desired, err)
		}
		if stored, err = p.readExisting(ctx, k, desired); err != nil || stored == nil {
			return err
		}
	}
	return p.correct(ctx, k, stored, desired)
}

// correct updates a grant to the desired one.
func (p *controlPlane) correct(ctx context.Context, k key, stored, desired *quotav1alpha1.ResourceGrant) error {
	if stored.DeletionTimestamp != nil {
		return nil // the next reconcile creates it again after its deletion
	}
	for range conflictsMax {
		grant, differs := corrected(stored, desired)
		if !differs {
			return nil
		}
		err := p.api.Update(ctx, grant)
		switch {
		case err == nil:
			p.recordGrant(grant)
			p.owner.metrics.wrote(wroteChange)
			if _, still := corrected(grant, desired); still {
				return &grantError{grant: desired, doing: "correct", ours: true, where: p.location(), err: errors.New("a mutating webhook or admission policy changes it to something else")}
			}
			p.owner.recordGrantEvent(k, grant, normal, quotav1alpha1.EventGrantUpdated, "Update", "changed %s%s of %s %s to match the policy", describe(grant), p.location(),
				grant.Spec.ConsumerRef.Kind, grant.Spec.ConsumerRef.Name)
			return nil
		case apierrors.IsNotFound(err):
			p.forgetGrant(stored)
			return p.problemWith(desired, "correct", err)
		case !apierrors.IsConflict(err):
			return p.problemWith(desired, "correct", err)
		}
		if stored, err = p.readExisting(ctx, k, desired); err != nil || stored == nil {
			return err
		}
	}
	return p.problemWith(desired, "correct", errors.New("somebody else keeps changing it"))
}

// conflictsMax is the number of attempts for a conflicting update.
const conflictsMax = 3

// readExisting reads the grant with the desired name. It returns nil for a grant in deletion, and an error for a grant
// not created by the policy.
func (p *controlPlane) readExisting(ctx context.Context, k key, desired *quotav1alpha1.ResourceGrant) (*quotav1alpha1.ResourceGrant, error) {
	stored := &quotav1alpha1.ResourceGrant{}
	reader := client.Reader(p.api)
	if p.ref.IsLocal() {
		reader = p.owner.Live
	}
	if err := reader.Get(ctx, nameOf(desired), stored); err != nil {
		return nil, p.problemWith(desired, "read", err)
	}
	if mark := stored.Annotations[quotav1alpha1.AnnotationParentContext]; mark != p.ref.Mark() && p.owner.isHeldBy(mark, k) {
		return nil, fmt.Errorf("%s was made through %s, and still belongs to it", describe(stored), cmp.Or(mark, "this control plane"))
	}
	if !k.isOf(stored) {
		if marked, ok := keyOf(stored); ok && marked.policy == k.policy {
			if other, known := p.owner.desiredGrant(marked, p.ref); known && (other == nil || nameOf(other) != nameOf(stored)) {
				return nil, fmt.Errorf("%s still belongs to another object, which no longer needs it", describe(stored))
			}
		}
		return nil, &grantError{grant: desired, doing: "create", ours: true, where: p.location(), err: errors.New(
			"a grant of that name exists, and Bursar did not make it for this object; it stays unchanged. Delete or rename it, or give the policy's grants another name")}
	}
	p.recordGrant(stored)
	if stored.DeletionTimestamp != nil {
		return nil, nil
	}
	return stored, nil
}

// createFailed returns why a create failed, and records a create with an unknown result.
func (p *controlPlane) createFailed(k key, desired *quotav1alpha1.ResourceGrant, err error) error {
	if !p.ref.IsLocal() && !isDefinite(err) { // the watch shows local grants
		p.mu.Lock()
		p.doubtful[k.policy] = struct{}{}
		p.mu.Unlock()
	}
	switch {
	case isNamespaceMissing(err, desired.Namespace):
		err = fmt.Errorf("namespace %s does not exist; create it, and the grant will follow: %w", desired.Namespace, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		err = fmt.Errorf("namespace %s is being deleted: %w", desired.Namespace, err)
	}
	return p.problemWith(desired, "create", err)
}

func isNamespaceMissing(err error, namespace string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	details := status.Status().Details
	return details.Kind == "namespaces" && details.Name == namespace
}
