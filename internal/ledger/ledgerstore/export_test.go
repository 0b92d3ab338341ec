package ledgerstore

import "github.com/bursar/bursar/internal/ledger"

// SetShare makes slices as large as tests need them.
func (s *Store) SetShare(ofLimit, ofRest ledger.Amount) { s.share = share{ofLimit, ofRest} }

// SpecOf encodes a snapshot.
var SpecOf = specOf
