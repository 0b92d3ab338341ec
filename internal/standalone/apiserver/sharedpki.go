package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/bursar/bursar/internal/standalone/datadir"
)

// etcdPKIKey is the key of the CA and the service account key common to the servers of an etcd cluster. Every reader of
// it can read all Secrets as well.
const etcdPKIKey = "/bursar/pki"

// sharedPKI are the shared files of a [pki], by name.
type sharedPKI map[string][]byte

func (p *pki) sharedFiles() map[string]string {
	return map[string]string{"ca.crt": p.caFile(), "ca.key": p.caKeyFile(), "service-accounts.key": p.serviceAccountKeyFile()}
}

// sharePKI makes all servers of the etcd cluster accept each other's users and service account tokens: the first server
// stores its CA and key, and the others use them instead of their own.
func (h *EtcdHold) sharePKI(ctx context.Context, own *pki) (*pki, error) {
	files := sharedPKI{}
	for name, path := range own.sharedFiles() {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, datadir.Reason(err))
		}
		files[name] = content
	}
	encoded, err := json.Marshal(files)
	if err != nil {
		return nil, fmt.Errorf("encode the certificate authority: %w", err)
	}
	answer, err := h.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(etcdPKIKey), "=", 0)).
		Then(clientv3.OpPut(etcdPKIKey, string(encoded))).Else(clientv3.OpGet(etcdPKIKey)).Commit()
	if err != nil {
		return nil, fmt.Errorf("share the certificate authority in etcd at %s: %w", h.servers, err)
	}
	if answer.Succeeded {
		return own, nil
	}
	var stored sharedPKI
	if err := json.Unmarshal(answer.Responses[0].GetResponseRange().Kvs[0].Value, &stored); err != nil {
		return nil, fmt.Errorf("read the certificate authority %s in etcd at %s: %w", etcdPKIKey, h.servers, err)
	}
	for name, path := range own.sharedFiles() {
		if len(stored[name]) == 0 {
			return nil, fmt.Errorf("%s in etcd at %s holds no %s; delete it to have the next server that starts store its own", etcdPKIKey, h.servers, name)
		}
		if err := datadir.WriteFile(path, stored[name]); err != nil {
			return nil, fmt.Errorf("write %s: %w", path, datadir.Reason(err))
		}
	}
	return openPKI(own.dir)
}
