// Command locks is locks on stores other than Cassandra, as programs that fencepost drives:
//
//	locks NAME
//
// They are small on purpose. Each is what its store's documentation shows.
package main

import "fencepost/systems/drive"

// What does not carry the attempt's id: a lease of etcd is renewed by its number, a key of a bucket
// deleted by its revision, and a node by its version; a Mutex is locked and unlocked by its session's key.
var (
	byLease   = []string{"renew-sent"}
	byVersion = []string{"release-sent"}
	bySession = []string{"acquire-sent", "renew-sent", "release-sent"}
)

var locks = map[string]drive.Lock{
	"redis-set":              {Open: openRedis},
	"redis-replica-set":      {Open: openRedis},
	"redislock":              {Open: openRedislock},
	"redlock":                {Open: openRedlock},
	"redlock-extend":         {Open: openRedlock, Trusting: true},
	"redlock-nx-extend":      {Open: openRedlockNX, Trusting: true},
	"etcd-lease":             {Open: openEtcd, Unseen: byLease},
	"etcd-lease-fenced":      {Open: openEtcd, Unseen: byLease, Fenced: true},
	"etcd-mutex":             {Open: openEtcdMutex, Unseen: bySession},
	"etcd-mutex-one-session": {Open: openOneSession, Unseen: bySession, Owes: true},
	"etcd-mutex-new-session": {Open: openNewSession, Unseen: bySession, Owes: true},
	"etcd-mutex-fenced":      {Open: openEtcdMutex, Unseen: bySession, Fenced: true},
	"none":                   {Open: openMemory},
	"nats-kv":                {Setup: setUpNATS, Open: openNATS, Unseen: byVersion},
	"nats-kv-fenced":         {Setup: setUpNATS, Open: openNATS, Unseen: byVersion, Fenced: true},
	"pg-advisory":            {Open: openAdvisory, Leaseless: true},
	"postgres-lease":         {Setup: setUpPostgres, Open: openPostgres},
	"postgres-lease-fenced":  {Setup: setUpPostgres, Open: openPostgres, Fenced: true},
	"postgres-standby-lease": {Setup: setUpPostgres, Open: openPostgres},
	"postgres-sync-lease":    {Setup: setUpPostgres, Open: openPostgres},
	"zk-curator":             {Open: openChild("curator"), Unseen: byVersion},
	"zk-curator-fenced":      {Open: openChild("curator"), Unseen: byVersion, Fenced: true},
	"zookeeper-node":         {Open: openZooKeeper, Unseen: byVersion},
	"zookeeper-node-fenced":  {Open: openZooKeeper, Unseen: byVersion, Fenced: true},
}

func main() { drive.Main(locks) }
