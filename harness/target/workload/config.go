package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store/cassandra"
	"fencepost/harness/env/login"
	"fencepost/harness/target/system/lockperjob"
)

// ConfigEnv is the environment variable that carries a worker's Config as JSON.
const ConfigEnv = "FENCEPOST_WORKER"

// Config is all that a worker process is told at its start.
type Config struct {
	Run     string `json:"run"`
	Worker  string `json:"worker"` // "w1"
	Life    string `json:"life"`   // "w1.2": its second life
	Variant string `json:"variant,omitempty"`
	// Scheduler is what the job workload runs, "" for the core's (or
	// lockperjob.Name); Promises are the properties that it claims, none for all.
	Scheduler string   `json:"scheduler,omitempty"`
	Promises  []string `json:"promises,omitempty"`
	Seed      uint64   `json:"seed"`
	Clients   int      `json:"clients"`
	// Locks are the locks to compete for; with Own each client has those of
	// its own number and no contention.
	Locks []string `json:"locks"`
	Own   bool     `json:"own,omitempty"`

	TTL            time.Duration `json:"ttl_ns"`
	Hold           time.Duration `json:"hold_ns"`  // mean time in the critical section; drawn from 0.5 to 1.5 of it
	Think          time.Duration `json:"think_ns"` // mean pause between cycles, drawn likewise
	AcquireTimeout time.Duration `json:"acquire_timeout_ns"`
	DriftBound     float64       `json:"drift_bound"`
	MarginBase     time.Duration `json:"margin_base_ns"`
	NoSingleFlight bool          `json:"no_single_flight,omitempty"`
	// Lock is what else clients of locks do.
	Lock LockLoad `json:"lock,omitzero"`

	// Jobs makes it the job workload; Clients, Locks, Hold and Think then mean nothing.
	Jobs *Jobs `json:"jobs,omitempty"`

	Keyspace string `json:"keyspace"`
	// Store is whose servers the nodes are, "" for Cassandra.
	Store   string `json:"store,omitempty"`
	CQLPort int    `json:"cql_port"`
	// AwaitLogin: what to show to the cluster comes as the first message on the
	// control channel, and is then in Login; secrets are in no environment.
	AwaitLogin bool         `json:"await_login,omitempty"`
	Login      *login.Login `json:"-"`
	// Sink is the kind of the sink (package sinks), "" for the default.
	Sink string `json:"sink,omitempty"`
	// SinkAddr is this worker's own link to a sink that is a service, "" for one on the nodes.
	SinkAddr string `json:"sink_addr,omitempty"`
	// SinkSecret is a file with what to show to such a sink, "" for nothing.
	SinkSecret string `json:"sink_secret,omitempty"`
	// LockNodes, SinkNodes and BeatNodes map a node's IP to the address of this
	// worker's own link to it, for the lock store, for a sink on the nodes, and with
	// jobs for heartbeats.
	LockNodes map[string]string `json:"lock_nodes"`
	SinkNodes map[string]string `json:"sink_nodes,omitempty"`
	BeatNodes map[string]string `json:"beat_nodes,omitempty"`
	History   string            `json:"history"` // the file to create
}

// Jobs describes the job workload of one worker: it runs jobs as a scheduler does,
// and enqueues at a rate whatever the answers (an open loop).
type Jobs struct {
	Queue string `json:"queue"`
	// Queues are all of them, Queue first, of a workload with several; each has so many shards.
	Queues  []string `json:"queues,omitempty"`
	Shards  int      `json:"shards"`  // or buckets, of a scheduler without shards
	Workers int      `json:"workers"` // of the run, which expect each other
	// Rate is how many jobs a second this worker enqueues.
	Rate float64 `json:"rate"`
	// Steps is the number of effects a job, Length the mean time that its handler
	// takes; drawn from 0.5 to 1.5 of it.
	Steps  int           `json:"steps"`
	Length time.Duration `json:"length_ns"`
	// Flaky is the part of the jobs whose first attempt fails, Poison that of those
	// whose every attempt does.
	Flaky  float64 `json:"flaky"`
	Poison float64 `json:"poison"`
	// Ahead: jobs are due at an instant up to so far ahead; 0: at once.
	Ahead time.Duration `json:"ahead_ns"`
	// Storm: jobs are due at the next multiple of it, all of them at once.
	Storm time.Duration `json:"storm_ns"`
	// Every is the distance of the times of a recurring schedule on each shard; 0: none.
	// Window is how late one of them may be and still fires.
	Every  time.Duration `json:"every_ns,omitempty"`
	Window time.Duration `json:"window_ns,omitempty"`
	// Schedules are schedules beside those, and Begin is what their instants are counted from, in ms
	// since 1970: the same for every worker.
	Schedules []Recurring `json:"schedules,omitempty"`
	Begin     int64       `json:"begin_ms,omitempty"`
	// Orders: the jobs are those of a shop, and Steps, Length, Flaky and Poison mean nothing.
	Orders *Orders `json:"orders,omitempty"`
	// Mixture is which parts of the jobs are different; nil: none.
	Mixture *Mixture `json:"mixture,omitempty"`
	// Commands are given on jobs and shards beside; nil: none.
	Commands *Commands `json:"commands,omitempty"`
	// API: clients ask the scheduler of their worker through its HTTP API.
	API bool `json:"api,omitempty"`
	// Sequence is how many jobs follow each, one after the other.
	Sequence int `json:"sequence,omitempty"`
	// Dedupe is for how long the id of a job that has ended is remembered; 0: DedupeWindow.
	Dedupe      time.Duration `json:"dedupe_ns,omitempty"`
	MaxAttempts int           `json:"max_attempts"`
	RetryBase   time.Duration `json:"retry_base_ns"`
	Slots       int           `json:"slots"`
	// Listen is where this worker takes what others enqueue for its shards,
	// Advertise how they reach it: by its own link.
	Listen    string `json:"listen"`
	Advertise string `json:"advertise"`
}

// Encode returns the value for ConfigEnv.
func (c Config) Encode() (string, error) {
	b, err := json.Marshal(c)
	return string(b), err
}

// ParseConfig is the inverse of Encode.
func ParseConfig(s string) (Config, error) {
	var c Config
	if s == "" {
		return c, fmt.Errorf("%s is not set: a worker is started by the runner (fencepost chaos), not by hand", ConfigEnv)
	}
	if err := json.Unmarshal([]byte(s), &c); err != nil {
		return c, fmt.Errorf("%s: %w", ConfigEnv, err)
	}
	if c.TTL <= 0 || c.Life == "" || c.History == "" {
		return c, errors.New(ConfigEnv + ": ttl, life and history are required")
	}
	_, err := c.row()
	return c, err
}

// Peers says whether workers know each other: by heartbeats, and by a link to each.
func (c Config) Peers() bool { return c.Jobs != nil }

// At is the configuration of a worker that has peers: where it listens to them, and how they
// reach it.
func (c Config) At(listen, advertise string) Config {
	if c.Peers() {
		j := *c.Jobs
		j.Listen, j.Advertise = listen, advertise
		c.Jobs = &j
	}
	return c
}

// Resource is the sink's resource that a lock protects: a resource is bound to
// one issuer of tokens.
func Resource(lock string) string { return "res-" + lock }

// row is a workload as a worker does it.
type row struct {
	check func(Config) error
	// dedupe: the ids of jobs are remembered for a time after their end.
	dedupe bool
	// sink is its own sink on the run's nodes; nil: the one that is there.
	sink func(*cassandra.DB, time.Duration) sink.Sink
	load func(context.Context, *process) (load, error)
}

// rows are by what the work is, and by the scheduler that it is given to.
var rows = map[string]map[string]row{
	"locks": {"": {check: checkLocks, load: loadLocks}},
	"jobs": {
		"": {load: loadJobs, dedupe: true},
		lockperjob.Name: {load: loadJobsByLock,
			sink: func(db *cassandra.DB, timeout time.Duration) sink.Sink { return lockperjob.NewSink(db, timeout) }},
	},
	"orders": {"": {load: loadOrders, dedupe: true}},
}

// row is that of the configuration, which is checked for it.
func (c Config) row() (row, error) {
	work := "locks"
	switch j := c.Jobs; {
	case j != nil && j.Orders != nil:
		work = "orders"
	case j != nil:
		work = "jobs"
	}
	r, ok := rows[work][c.Scheduler]
	switch {
	case !ok:
		return r, fmt.Errorf("scheduler %q does not run %s", c.Scheduler, work)
	case r.check != nil:
		return r, r.check(c)
	}
	return r, nil
}

// dedupe is for how long the id of a job that has ended is remembered.
func (c Config) dedupe() time.Duration {
	if c.Jobs == nil || c.Jobs.Dedupe == 0 {
		return DedupeWindow
	}
	return c.Jobs.Dedupe
}

func checkLocks(c Config) error {
	if c.Clients < 1 || len(c.Locks) == 0 {
		return errors.New(ConfigEnv + ": clients and locks are required, or jobs")
	}
	return nil
}
