// Package watcher keeps the inventory up to date: it watches the objects of every kind under a policy that counts
// objects, and evaluates the policies for each version of them.
//
// The demand of a kind is a function of its objects, of the policies, and of the namespaces if a policy reads them.
// Each of these has a version, and every replica that has seen the same versions has the same inventory. A changed
// policy needs a new list, and the inventory stays as it was until that is complete. A changed namespace needs a list
// of its objects.
//
// Claims of record are one more kind, whatever the policies. They come through the lists and watches of package
// claimcache. One of a policy demands its requests, and one by a person or a service what it was granted.
package watcher
