// A store of keys with consensus, a log on disk and clients over HTTP/2, all in one process.
//
// Arguments: SECONDS [PERCENT OF A PROCESSOR]
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"agent.test/bench/pace"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	directory, err := os.MkdirTemp("", "keys")
	pace.Check(err)
	defer os.RemoveAll(directory)
	config := embed.NewConfig()
	config.Dir, config.LogLevel, config.UnsafeNoFsync = directory, "fatal", true
	config.AutoCompactionMode, config.AutoCompactionRetention = "revision", "500"
	socket := url.URL{Scheme: "unix", Host: "keys:0"}
	peer := url.URL{Scheme: "unix", Host: "keys:1"}
	pace.Check(os.Chdir(directory))
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{socket}, []url.URL{socket}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	pace.Check(err)
	defer server.Close()
	<-server.Server.ReadyNotify()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{socket.String()}, DialTimeout: 10 * time.Second})
	pace.Check(err)
	defer client.Close()
	ctx := context.Background()
	watched := client.Watch(ctx, "key", clientv3.WithPrefix())
	go func() {
		for range watched {
		}
	}()
	session, err := concurrency.NewSession(client)
	pace.Check(err)
	mutex := concurrency.NewMutex(session, "lock")
	pace.Run(func(turn int) {
		key := fmt.Sprint("key", turn%200)
		switch turn % 6 {
		case 0, 1:
			_, err = client.Put(ctx, key, fmt.Sprintf("%0*d", turn%900+1, turn))
		case 2:
			_, err = client.Get(ctx, "key", clientv3.WithPrefix(), clientv3.WithLimit(50),
				clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend))
		case 3:
			_, err = client.Txn(ctx).If(clientv3.Compare(clientv3.Version(key), ">", 1)).
				Then(clientv3.OpPut(key, "new"), clientv3.OpGet(key)).Else(clientv3.OpDelete(key)).Commit()
		case 4:
			pace.Check(mutex.Lock(ctx))
			err = mutex.Unlock(ctx)
		default:
			lease, failed := client.Grant(ctx, 5)
			pace.Check(failed)
			_, err = client.Put(ctx, key, "leased", clientv3.WithLease(lease.ID))
		}
		pace.Check(err)
	})
}
