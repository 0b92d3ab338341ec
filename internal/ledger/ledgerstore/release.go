package ledgerstore

import quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"

// ExpectRelease announces the release of a charge with some id: its object is gone. Until [Store.ReleaseDone] with the
// same id, or for 30 s, denials for this consumer wait a little for the release.
func (s *Store) ExpectRelease(consumer quotav1alpha1.ConsumerRef, id string) {
	s.with(consumer, func(c *committer) bool { return c.expectRelease(id, expectedReleaseMax) })
}

// ExpectDeletion announces the deletion of the object with a charge, under the id of its release. The object still
// exists, and may do so for long, so denials wait only in the next 3 s. Call [Store.ExpectRelease] when it is gone.
func (s *Store) ExpectDeletion(consumer quotav1alpha1.ConsumerRef, id string) {
	s.with(consumer, func(c *committer) bool { return c.expectRelease(id, deletionMax) })
}

// ReleaseDone ends an announcement of [Store.ExpectRelease], with or without a release.
func (s *Store) ReleaseDone(consumer quotav1alpha1.ConsumerRef, id string) {
	s.mu.RLock()
	c := s.byRef[consumer]
	s.mu.RUnlock()
	if c != nil {
		c.releaseDone(id)
	}
}
