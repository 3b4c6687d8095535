//go:build integration

package postgres

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/sink/sinktest"
)

// TestStricterDefault: where transactions are serializable unless they say otherwise, many
// processes may create the tables at once, and the sink decides as ever.
func TestStricterDefault(t *testing.T) {
	t.Parallel()
	s := start(t)
	must(t, Configure(s.Service, "default_transaction_isolation", "serializable"))
	pools := make([]*pgxpool.Pool, 8)
	for i := range pools {
		pools[i] = connect(t, s, s.Addr())
		for level := ""; level != "serializable"; time.Sleep(time.Millisecond) {
			must(t, pools[i].QueryRow(t.Context(), `SHOW transaction_isolation`).Scan(&level))
		}
	}
	var all sync.WaitGroup
	for _, p := range pools {
		all.Go(func() {
			if err := postgressink.Migrate(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	one := postgressink.New(pools[0], postgressink.Options{})
	other := postgressink.New(pools[1], postgressink.Options{})
	sinktest.Run(t, "strict", func(*testing.T) sink.Sink { return sinktest.Turns(one, other) })
}
