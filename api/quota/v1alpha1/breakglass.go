package v1alpha1

// BreakGlassGroup is the group whose requests quota enforcement leaves out, also while Bursar is
// down: the API server itself does not call the webhook on protected kinds for them. Nobody is
// meant to be in this group for good. Who may use it is a matter of RBAC: whoever may impersonate
// the group adds it to a single request, which the API server's audit log tells.
const BreakGlassGroup = GroupName + ":break-glass"
