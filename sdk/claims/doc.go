// Package claims lets a service claim quota for its objects. The controller of the objects creates one ResourceClaim
// for each, and provisions an object only after the grant of its claim.
//
// Users can create objects of such a service whether there is quota for them or not. An object without quota reports
// this in its conditions. The service provisions it as soon as there is capacity. (To deny the creation instead, use a
// ClaimCreationPolicy. The service then needs no code.)
//
// A reconciler ensures the claim, writes the decision to the status, and continues if it may:
//
//	decision, err := r.Claims.Ensure(ctx, claims.For(instance, consumer, requests...))
//	decision.Set(&instance.Status.Conditions, instance.Generation, "Programmed", "Running", "Ready")
//	if err := errors.Join(err, r.Client.Status().Update(ctx, instance)); err != nil || !decision.IsGranted() {
//		return ctrl.Result{}, err
//	}
//
// The object is the controller of its claim, so a change of the claim's status triggers the reconciler:
//
//	ctrl.NewControllerManagedBy(mgr).For(&Instance{}).Owns(&quotav1alpha1.ResourceClaim{})
//
// To resize an object, ensure other amounts. The object keeps its amounts until Bursar grants the resize.
//
// The garbage collector deletes the claim with its object. A deleted claim releases its charge only once the object is
// gone, no matter who deletes the claim. To release the charge of an object earlier, call [Client.Release].
//
// The package keeps no state: the name of the claim follows from the object, and it reads everything else. Several
// replicas may call it at any time, as often as they like. If Bursar is not installed or does not answer, no claim is
// granted, and the condition has the reason.
//
// It imports the API types and controller-runtime, and nothing else of Bursar.
package claims
