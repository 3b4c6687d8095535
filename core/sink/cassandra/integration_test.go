//go:build integration

package cassandrasink_test

import (
	"fmt"
	"testing"
	"time"

	"fencepost/core/sink"
	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store/cassandra/cassandratest"
)

// TestConformance runs the suite with one sink for all calls, and with one a
// call, whose memory of the resource is always old or empty.
func TestConformance(t *testing.T) {
	t.Parallel()
	cfg := cassandratest.Keyspace(t)
	db, other := cassandratest.Open(t, cfg), cassandratest.Open(t, cfg)
	one := cassandrasink.New(db, cassandrasink.Options{Retires: true})
	t.Run("all", func(t *testing.T) {
		t.Run("one sink", func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, "one", func(*testing.T) sink.Sink { return one })
		})
		t.Run("two sinks in turns", func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, "turns", func(*testing.T) sink.Sink {
				return sinktest.Turns(cassandrasink.New(db, cassandrasink.Options{Retires: true}), cassandrasink.New(other, cassandrasink.Options{Retires: true}))
			})
		})
	})
}

// TestManyKeysForgotten drops more keys than one statement can.
func TestManyKeysForgotten(t *testing.T) {
	t.Parallel()
	s := cassandrasink.New(cassandratest.Open(t, cassandratest.Keyspace(t)), cassandrasink.Options{Retires: true})
	const n = 120
	for i := range n {
		if _, err := s.Accept(t.Context(), "r", "i", 1, sink.Effect{Key: fmt.Sprint(i), Value: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Forget(t.Context(), "r", time.Now().Add(time.Hour)); err != nil || got != n {
		t.Errorf("Forget = %d, %v", got, err)
	}
	if l, err := s.Ledger(t.Context(), "r"); err != nil || len(l) != 1 {
		t.Errorf("%d ledger entries, %v", len(l), err)
	}
}

func TestMain(m *testing.M) { cassandratest.Main(m) }
