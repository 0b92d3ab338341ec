package v1alpha1

// BreakGlassGroup is the group of users whose requests bypass quota enforcement, even while Bursar is down: the API
// server does not call the webhook on protected kinds for them. Users should not be in this group permanently. RBAC
// controls its use: a user who may impersonate the group adds it to a single request, which the API server's audit log
// records.
const BreakGlassGroup = GroupName + ":break-glass"
