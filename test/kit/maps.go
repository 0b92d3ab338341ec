package kit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/test/platform"
)

// CheckMaps returns the number of existing maps under the policy of [platform.ProtectMaps], and an error unless claims,
// ledgers and buckets agree on the use of Organization acme, and on its limit.
func CheckMaps(ctx context.Context, api client.Reader, limit int64) (objects int64, err error) {
	var list corev1.ConfigMapList
	if err := api.List(ctx, &list); err != nil {
		return 0, err
	}
	a := Agreement{Limits: Charges{"acme": {platform.MapsType: limit}}, Objects: map[types.UID]Charges{}}
	for i := range list.Items {
		if platform.IsMap(&list.Items[i]) {
			a.Objects[list.Items[i].UID] = Charges{"acme": {platform.MapsType: 1}}
		}
	}
	return int64(len(a.Objects)), a.Check(ctx, api)
}
