// Package inventory adds up what the protected objects demand of each consumer, as far as one replica has seen them. It
// has no client and no policy: a watch tells it which objects exist, and what each of them demands.
//
// A [Kind] is the inventory of one kind. [Kind.View] shows it as of one moment: the observation for the ledger of a
// consumer, and what is visible of the requests that wait for it.
//
// An object takes about 100 bytes beside its name: objects with the same demand share it.
package inventory
