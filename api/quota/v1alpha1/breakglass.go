package v1alpha1

// BreakGlassGroup is a group of users. Their requests bypass quota enforcement, even while Bursar is down: the API
// server does not call the webhook on protected kinds for them. Users should not be in this group permanently. RBAC
// controls its use: a user with the right to impersonate the group adds it to a single request. The API server's audit
// log records this request.
const BreakGlassGroup = GroupName + ":break-glass"
