package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// registry is the beginning of the keys of all objects.
	registry = "/registry/"
	// etcdPage is the number of keys in one read.
	etcdPage = 1000
	// etcdTimeout bounds the work of etcd on its whole database.
	etcdTimeout = 5 * time.Minute
)

// openEtcd reaches the running etcd with its state in a system's directory.
func openEtcd(dir string) (*clientv3.Client, error) {
	socket := filepath.Join(dir, "etcd", "socket", "etcd.sock")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("reach etcd at %s: %w", socket, err)
	}
	return client, nil
}

// stored is an object as etcd has it.
type stored struct{ key, value string }

// eachStored calls visit for every object in etcd.
func eachStored(ctx context.Context, etcd *clientv3.Client, visit func(stored)) error {
	end := clientv3.GetPrefixRangeEnd(registry)
	for next := registry; ; {
		page, err := etcd.Get(ctx, next, clientv3.WithRange(end), clientv3.WithLimit(etcdPage))
		if err != nil {
			return fmt.Errorf("read etcd: %w", err)
		}
		for _, kv := range page.Kvs {
			visit(stored{string(kv.Key), string(kv.Value)})
		}
		if !page.More {
			return nil
		}
		next = string(append(bytes.Clone(page.Kvs[len(page.Kvs)-1].Key), 0))
	}
}

// printSizes prints the sizes of objects in etcd: key and value of each frequent kind. It also prints the size of the
// file of the database, with and without the revisions that the API server has not dropped yet.
func (b *bench) printSizes(ctx context.Context) error {
	etcd, err := openEtcd(b.system.directory())
	if err != nil {
		return err
	}
	defer etcd.Close() //nolint:errcheck // it was only used to ask
	type size struct{ objects, bytes int }
	sizes := map[string]*size{}
	err = eachStored(ctx, etcd, func(s stored) {
		resource := resourceOf(s.key)
		if sizes[resource] == nil {
			sizes[resource] = &size{}
		}
		sizes[resource].objects++
		sizes[resource].bytes += len(s.key) + len(s.value)
	})
	if err != nil {
		return err
	}
	fmt.Println("\n| in etcd | objects | bytes each, key and value |\n| --- | --- | --- |")
	for _, resource := range []string{"resourceclaims", "consumerledgers", "allowancebuckets", "effectiveresourcegrants", "resourcegrants", "configmaps"} {
		if s := sizes[resource]; s != nil {
			fmt.Printf("| %s | %d | %d |\n", resource, s.objects, s.bytes/s.objects)
		}
	}
	return printDatabase(ctx, etcd)
}

func printDatabase(ctx context.Context, etcd *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	endpoint := etcd.Endpoints()[0]
	before, err := etcd.Status(ctx, endpoint)
	if err != nil {
		return fmt.Errorf("ask etcd for its size: %w", err)
	}
	if _, err := etcd.Compact(ctx, before.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	if _, err := etcd.Defragment(ctx, endpoint); err != nil {
		return fmt.Errorf("defragment etcd: %w", err)
	}
	after, err := etcd.Status(ctx, endpoint)
	if err != nil {
		return fmt.Errorf("ask etcd for its size: %w", err)
	}
	fmt.Printf("\netcd's database: %d MiB, of which %d in use; %d MiB once compacted and defragmented\n",
		before.DbSize>>20, before.DbSizeInUse>>20, after.DbSize>>20)
	return nil
}

// resourceOf is the resource in a key: /registry/RESOURCE/... of core kinds, /registry/GROUP/RESOURCE/...
// of custom ones.
func resourceOf(key string) string {
	parts := strings.Split(strings.TrimPrefix(key, registry), "/")
	if strings.Contains(parts[0], ".") && len(parts) > 1 {
		return parts[1]
	}
	return parts[0]
}
