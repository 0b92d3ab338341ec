package kubernetes

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// patient returns a client like the controllers of Kubernetes. It sends a request up to two times more if the API
// server got no answer from a webhook in its five seconds. A machine busy with other things may stand still that long.
func patient(t *testing.T, api client.WithWatch) client.Client {
	patiently := func(try func() error) (err error) {
		for range 3 {
			if err = try(); !hasNoAnswer(err) {
				return err
			}
			t.Logf("is sent again: %v", err)
		}
		return err
	}
	return interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return patiently(func() error { return api.Create(ctx, object, options...) })
		},
		Update: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return patiently(func() error { return api.Update(ctx, object, options...) })
		},
		Patch: func(ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return patiently(func() error { return api.Patch(ctx, object, patch, options...) })
		},
		Delete: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return patiently(func() error { return api.Delete(ctx, object, options...) })
		},
	})
}

// slowCallsMax is the number of calls with an answer too late, on a machine busy with other things. No call may fail.
const slowCallsMax = 3

// isSlow reports, by the message, whether a request failed only for its time.
func isSlow(message string) bool {
	return strings.Contains(message, "context deadline exceeded") && (strings.Contains(message, "failed calling webhook") || strings.Contains(message, "did not answer in time"))
}

// hasNoAnswer reports whether a request failed because a webhook did not answer in time. Then nothing was stored.
func hasNoAnswer(err error) bool {
	return apierrors.IsInternalError(err) && isSlow(err.Error())
}
