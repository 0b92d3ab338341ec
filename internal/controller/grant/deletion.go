package grant

import (
	"context"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// deletionsMax bounds the deleted grants with a remembered user, until the ledger has lost the grant.
const deletionsMax = 1024

// markMax is the largest age of a valid mark: longer than the API server works on a request.
const markMax = 2 * time.Minute

// Deletions knows who deletes grants, for the journal. The webhook sees the request and marks the grant. So the leader,
// perhaps another replica, finds the user on the last version in the watch.
type Deletions struct {
	// Client marks grants. Set it before the first call of Mark.
	Client client.Client
	clock  Clock
	log    logr.Logger
	users  *lru.Cache // by UID of the grant
}

// NewDeletions returns an empty record of deletions.
func NewDeletions(clock Clock, log logr.Logger) *Deletions {
	return &Deletions{clock: clock, log: log, users: lru.New(deletionsMax)}
}

// Mark marks a grant with the user behind the request to delete it, and the time. If this fails, the journal will not
// know the user.
func (d *Deletions) Mark(ctx context.Context, grant *quotav1alpha1.ResourceGrant, user string) {
	if d.userOf(grant) == user {
		return // the API server asks again, because the mark has changed the object
	}
	marked := grant.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, quotav1alpha1.AnnotationDeletedBy, d.clock.Now().UTC().Format(time.RFC3339)+" "+user)
	err := d.Client.Update(ctx, marked)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		d.log.Error(err, "the journal will not name the user of a deletion", "namespace", grant.Namespace, "grant", grant.Name, "user", user)
	}
}

// userOf returns the user in the mark of a grant, unless the mark is older than a request can be: then the request
// failed.
func (d *Deletions) userOf(grant *quotav1alpha1.ResourceGrant) string {
	marked, user, _ := strings.Cut(grant.Annotations[quotav1alpha1.AnnotationDeletedBy], " ")
	if at, err := time.Parse(time.RFC3339, marked); err != nil || d.clock.Now().Sub(at) > markMax {
		return ""
	}
	return user
}

// Follow returns a transformation for a cache of grants, and continues with another one. It remembers who deletes a
// grant before the cache lacks the grant. An event of the deletion may come too late: readers of the cache ask as soon
// as the grant is missing.
func (d *Deletions) Follow(next cache.TransformFunc) cache.TransformFunc {
	return func(object any) (any, error) {
		if grant, ok := object.(*quotav1alpha1.ResourceGrant); ok {
			if user := d.userOf(grant); user != "" {
				d.users.Add(string(grant.UID), user)
			} else {
				d.users.Remove(string(grant.UID))
			}
		}
		return next(object)
	}
}

// DeletedBy returns the user who deleted the grant with a UID, if known.
func (d *Deletions) DeletedBy(grantUID string) string {
	user, _ := d.users.Get(grantUID)
	name, _ := user.(string)
	return name
}
