package drill

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/google/uuid"

	"fencepost/core/store"
	"fencepost/harness/env/link"
)

// refusing is rows that carry nothing out, and whose nodes say so.
type refusing struct{ *lease }

func (refusing) CAS(context.Context, string, *store.Version, store.Version, int) (store.CASResult, error) {
	return store.CASResult{}, errors.New("timed out")
}

// TestDriverLosesAnswers: what the driver that go.mod names does with nodes that answer.
func TestDriverLosesAnswers(t *testing.T) {
	t.Parallel()
	retries := &gocql.SimpleRetryPolicy{NumRetries: 3}
	for name, c := range map[string]struct {
		retries  gocql.RetryPolicy
		inert    bool
		refuses  bool
		rejected bool // the caller is told so, and shown its own version
		unknown  bool
		lost     string // part of the evidence; "": there was none
	}{
		"with a retry policy": {retries: retries, rejected: true, lost: "copies sent by the driver: 2"},
		"without":             {unknown: true, lost: "copies sent by the driver: 1"},
		"links that pass":     {retries: retries, inert: true},
		"nothing carried out": {refuses: true, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := &lease{}
			var does store.Locks = row
			if c.refuses {
				does = refusing{row}
			}
			d, err := openDriver(fakeNodes(t, does), "ks", c.retries, &driverLeases{Locks: row, statements: plainLeases{table: "leases"}, inert: c.inert})
			must(t, "open", err)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			to := store.Version{Fence: 1, Attempt: uuid.NewString(), Holder: "harness/holder", TTL: LeaseTTL}
			res, err := d.CAS(ctx, "row", nil, to, 0)
			lost, text := d.lost()
			must(t, "close", d.close())
			if lost != (c.lost != "") || !strings.Contains(text, c.lost) {
				t.Errorf("lost %v: %s", lost, text)
			}
			if c.unknown != (err != nil) || c.unknown && store.OutcomeOf(err) != store.Unknown {
				t.Errorf("it said: %v", err)
			}
			if rejected := err == nil && !res.Applied; rejected != c.rejected || rejected && !store.Same(res.Row, &to) {
				t.Errorf("applied %v, row %s", res.Applied, res.Row)
			}
		})
	}
}

func TestUnheard(t *testing.T) {
	t.Parallel()
	down := func(passed, lost int64) link.Counters {
		return link.Counters{Down: link.DirCounters{PassedBytes: passed, LostBytes: lost}}
	}
	for name, c := range map[string]struct {
		before, after link.Counters
		want          int64
	}{
		"all is lost":        {down(100, 0), down(100, 30), 30},
		"all, a second time": {down(100, 30), down(100, 70), 40},
		"nothing was held":   {down(100, 0), down(100, 0), 0},
		"some was heard":     {down(100, 0), down(101, 30), 0},
	} {
		if n, err := unheardBytes(c.before, c.after); n != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// fakeNodes are three nodes of which each is enough for a session of the driver, and for
// conditional INSERTs of leases.
func fakeNodes(t *testing.T, row store.Locks) []endpoint {
	t.Helper()
	var at []endpoint
	for i, name := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, "listen", err)
		n := &fakeNode{self: i, row: row}
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.serve(l)
		}()
		t.Cleanup(func() {
			l.Close()
			<-done
		})
		at = append(at, endpoint{name, fakeIP(i), l.Addr().String()})
	}
	return at
}
