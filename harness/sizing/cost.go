// Package sizing says what a load of jobs needs, from what one job was measured to cost.
//
// A Cost is measured on a real cluster by this package's integration test and kept as a line of
// results/cost.jsonl. Plan is arithmetic: it multiplies the newest of them by a rate, with
// Assumptions where nothing was measured, and says of each number where it comes from.
// The table in docs/core.md is written by it, and a test compares the two.
package sizing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Per is what one job costs at saturation, on average.
type Per struct {
	// Jobs is how many were run, in Seconds.
	Jobs    int     `json:"jobs"`
	Seconds float64 `json:"seconds"`
	// LWTs are conditional batches on shards, SinkLWTs those on the sink; Changes are rows
	// that the former put or delete, BatchBytes what those take (store.Batch.Bytes).
	LWTs       float64 `json:"lwts"`
	SinkLWTs   float64 `json:"sink_lwts"`
	Changes    float64 `json:"changes"`
	BatchBytes float64 `json:"batch_bytes"`
	// Plain are all other requests, Scans those of them that read ranges of a shard.
	Plain float64 `json:"plain"`
	Scans float64 `json:"scans"`
	// NetworkBytes are sent by all nodes together, to each other and to clients, above
	// what they send when nothing happens.
	NetworkBytes float64 `json:"network_bytes"`
	// NodeCPU and OwnCPU are seconds of one core, of all nodes and of the scheduler with
	// its client.
	NodeCPU float64 `json:"node_cpu_seconds"`
	OwnCPU  float64 `json:"own_cpu_seconds"`
}

// Disk is what one completed job takes on one replica until it is forgotten, in bytes.
type Disk struct {
	Shards float64 `json:"shards"`
	Runs   float64 `json:"runs"`
	// Sink is of a job with one effect.
	Sink float64 `json:"sink"`
}

// Cost is a measurement.
type Cost struct {
	Version  int       `json:"version"`
	Measured time.Time `json:"measured"`
	// Nodes, Replicas and Cores are those of the machine that has all of the cluster.
	Nodes    int `json:"nodes"`
	Replicas int `json:"replicas"`
	Cores    int `json:"cores"`
	Shards   int `json:"shards"`
	// Payload is in bytes.
	Payload int `json:"payload_bytes"`
	// Job has no effect, Effect one.
	Job    Per  `json:"job"`
	Effect Per  `json:"job_with_effect"`
	Disk   Disk `json:"disk"`
}

// Check reports a measurement that cannot be right.
func (c Cost) Check() error {
	for name, p := range map[string]Per{"job": c.Job, "job_with_effect": c.Effect} {
		switch {
		case p.Jobs < 1 || p.Seconds <= 0:
			return fmt.Errorf("sizing: %s: %d jobs in %.1f s", name, p.Jobs, p.Seconds)
		case p.LWTs <= 0 || p.Changes < 8 || p.BatchBytes <= float64(c.Payload) || p.NetworkBytes <= p.BatchBytes || p.NodeCPU <= 0:
			return fmt.Errorf("sizing: %s: a cost is missing, or too small to be true: %+v", name, p)
		}
	}
	if c.Version != 1 || c.Effect.SinkLWTs < 1 || c.Job.SinkLWTs != 0 {
		return fmt.Errorf("sizing: version %d, %.2f LWTs of the sink for a job with an effect, %.2f without", c.Version, c.Effect.SinkLWTs, c.Job.SinkLWTs)
	}
	return nil
}

// Latest reads the newest measurement of a file with a line each: the last.
func Latest(file string) (c Cost, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return c, err
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &c); err != nil {
		return c, fmt.Errorf("%s:%d: %w", file, len(lines), err)
	}
	return c, c.Check()
}
