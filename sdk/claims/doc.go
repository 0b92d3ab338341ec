// Package claims lets a service take quota for its objects: one ResourceClaim for each, made by the controller that
// looks after the object, which provisions nothing before the claim is granted.
//
// Objects of such a service are created whether there is quota for them or not. Those that have to wait say so in
// their conditions, and go on by themselves once there is capacity. (Where creating is to be refused instead, no
// service needs to do anything: that is what a ClaimCreationPolicy is for.)
//
// A reconciler ensures the claim, says what became of it, and goes on if it may:
//
//	decision, err := r.Claims.Ensure(ctx, claims.For(instance, consumer, requests...))
//	decision.Set(&instance.Status.Conditions, instance.Generation, "Programmed", "Running", "Ready")
//	if err := errors.Join(err, r.Client.Status().Update(ctx, instance)); err != nil || !decision.IsGranted() {
//		return ctrl.Result{}, err
//	}
//
// and is called again when something becomes of the claim, as the object is its controller:
//
//	ctrl.NewControllerManagedBy(mgr).For(&Instance{}).Owns(&quotav1alpha1.ResourceClaim{})
//
// An object that is to have other amounts asks for them in the same way, and keeps what it has until they are granted.
//
// The claim goes with its object, by the garbage collector. Whoever deletes the claim, and whenever, it gives back what it
// holds once the object is gone. An object whose capacity is free before that gives it back by [Client.Release].
//
// Nothing depends on what a process remembers: the name of the claim follows from the object, and everything else is
// read. It may be called at any time, as often as one likes, and by several replicas at once. Where quota is not to be
// had, because Bursar is not there or does not answer, nothing is granted and the condition says so.
package claims
