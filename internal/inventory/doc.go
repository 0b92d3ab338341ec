// Package inventory adds up what the protected objects demand of each consumer, as far as one replica has seen them. It
// has no client and no policy: a watch tells it which objects exist, and what each of them demands.
//
// A [Kind] is the inventory of one kind. [Kind.View] shows it as of one moment, from the side of a consumer: the
// observation for its ledger, what is visible of the requests that wait for it, and which objects changed.
//
// Objects with the same demand share it. So one of 150,000 objects takes 240 bytes, its name among them:
//
//	go test -run xx -bench Memory ./internal/inventory
package inventory
