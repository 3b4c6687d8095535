package checkers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"fencepost/core/store/sim"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/simrun"
)

// OrderEnv is the environment variable that carries the orders of a process which makes a
// history, as JSON.
const OrderEnv = "FENCEPOST_BENCH_HISTORY"

// MakeArgs make the tool's executable such a process; it then calls Main.
var MakeArgs = []string{"bench", "--make-history"}

// order is the history that is to be made: a directory of files.
type order struct {
	Dir        string `json:"dir"`
	Operations int    `json:"operations"`
	Seed       uint64 `json:"seed"`
}

// perSecond is about how many operations the run below does in a second of virtual time.
const perSecond = 1150

// run is one of about so many operations: workers compete for locks, requests are lost and late,
// and one worker is killed.
func (o order) run() simrun.Config {
	const ttl = 2 * time.Second
	return simrun.Config{
		Dir: o.Dir, Seed: o.Seed, Workers: 4, Clients: 8, Locks: 10, TTL: ttl, Hold: 20 * time.Millisecond, Think: 20 * time.Millisecond,
		Length: time.Duration(float64(o.Operations) / perSecond * float64(time.Second)), Kill: true,
		Faults: sim.Faults{Latency: time.Millisecond, LoseRequest: 0.02, LoseReply: 0.02, Late: 0.02, LateBy: 2 * ttl, StaleRead: 0.1},
	}
}

// Main is a process that makes a history: it takes its orders from the environment, and exits.
// Go has virtual time only for what is a test, so it is one.
func Main() {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(OrderEnv)), &o); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v (a process that makes histories is started by the tool, not by hand)\n", OrderEnv, err)
		os.Exit(2)
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "History", F: func(t *testing.T) { simrun.Make(t, o.run()) }}}, nil, nil)
}

// history makes the history of a run in a directory as a run leaves one.
func (o order) history(ctx context.Context, exe, dir string) error {
	o.Dir = filepath.Join(dir, rundir.HistoryDir)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	env, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe, MakeArgs...)
	cmd.Env = append(os.Environ(), OrderEnv+"="+string(env))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make a history of %d operations: %w: %s", o.Operations, err, lastWords(said.Bytes()))
	}
	return nil
}

// lastWords is the end of what a process said.
func lastWords(said []byte) []byte {
	const most = 2000
	said = bytes.TrimSpace(said)
	return said[max(0, len(said)-most):]
}
