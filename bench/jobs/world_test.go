package jobs

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/bench"
	"fencepost/core/clock"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneWay is the mean way of a request or an answer, unless a test has another.
const oneWay = 20 * time.Millisecond

// countedSink takes as long as a store does, and counts calls as requests.
type countedSink struct {
	sink.Sink
	sent atomic.Int64
}

func (s *countedSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	s.sent.Add(1)
	if err := clock.Go().Sleep(ctx, 2*oneWay); err != nil {
		return sink.Answer{}, err
	}
	return s.Sink.Accept(ctx, resource, issuer, token, e)
}

// world is a simulated cluster in a bubble of virtual time.
type world struct {
	session *sim.Session
	env     *bench.Env
}

func newWorld(faults sim.Faults) *world {
	session := sim.New().Connect("bench", 1)
	if faults.Latency == 0 {
		faults.Latency = oneWay
	}
	session.SetFaults(faults)
	effects := &countedSink{Sink: sinktest.NewMemory()}
	return &world{session: session, env: &bench.Env{
		Locks: session, Shards: session, Sink: effects, SinkLWTs: effects.sent.Load,
		Clock: clock.Go(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Seed: 1,
	}}
}

// newSuite returns a small suite without a rival, which needs a database.
func newSuite(t *testing.T, c Config) *Suite {
	t.Helper()
	c.withoutRival = true
	if c.Shards == nil {
		c.Shards = []int{2, 1}
	}
	if c.InFlight == 0 {
		c.InFlight = 100
	}
	if c.Rounds == 0 {
		c.Rounds, c.Window, c.Lead = 5, time.Second, 500*time.Millisecond
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
