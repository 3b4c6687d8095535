package bench

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOffer: wishes come when they are meant to, however slow what is asked is, and each is
// asked for in the order in which it is due.
func TestOffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var came []time.Duration
		var mu sync.Mutex
		var asked []int
		o := Offer{
			Begin: begin, Length: time.Second, Rate: 100, Senders: 2,
			Came: func(_ int, at time.Time) {
				if at != time.Now() {
					t.Errorf("a wish of %s came at %s", at.Sub(begin), time.Since(begin))
				}
				came = append(came, at.Sub(begin))
			},
			Do: func(_ context.Context, n int, _ time.Time) time.Duration {
				mu.Lock()
				asked = append(asked, n)
				mu.Unlock()
				if n == 10 { // the thing asked stands still for half a second
					time.Sleep(500 * time.Millisecond)
				}
				time.Sleep(30 * time.Millisecond) // two senders do 67 a second
				return 0
			},
		}
		out, err := o.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if out.Wishes != 99 || len(came) != 99 || out.Left != 0 || len(asked) != 99 || !slices.IsSorted(asked) || out.Retried != 0 {
			t.Errorf("%+v; %d came, %d asked for, in order: %v", out, len(came), len(asked), slices.IsSorted(asked))
		}
		// What came while it stood still was asked for late, and that is seen.
		if p := time.Duration(out.Lag.ValueAtQuantile(99)) * time.Microsecond; p < 400*time.Millisecond {
			t.Errorf("p99 of the lag is %s", p)
		}
	})
}

// TestOfferAgain: a wish that is refused is asked for again when it is time, and meanwhile
// it keeps no sender.
func TestOfferAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := map[int][]time.Duration{}
		var mu sync.Mutex
		begin := time.Now()
		out, err := Offer{
			Begin: begin, Length: time.Second, Rate: 10, Senders: 1,
			Do: func(_ context.Context, n int, _ time.Time) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				tries[n] = append(tries[n], time.Since(begin))
				if n == 0 && len(tries[n]) < 3 {
					return 250 * time.Millisecond
				}
				return 0
			},
		}.Run(t.Context())
		if err != nil || out.Wishes != 9 || out.Retried != 2 || out.Left != 0 {
			t.Errorf("%+v, %v", out, err)
		}
		ms := func(all ...int) (out []time.Duration) {
			for _, n := range all {
				out = append(out, time.Duration(n)*time.Millisecond)
			}
			return out
		}
		if got, want := tries[0], ms(100, 350, 600); !slices.Equal(got, want) {
			t.Errorf("the refused one was asked for at %v, want %v", got, want)
		}
		if got, want := tries[1], ms(200); !slices.Equal(got, want) {
			t.Errorf("the one after it was asked for at %v, want %v", got, want)
		}
	})
}

// TestOfferLeft: what nobody could be asked for is told, and nothing outlives Run.
func TestOfferLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		out, err := Offer{
			Begin: time.Now(), Length: time.Second, Rate: 100, Rand: rand.New(rand.NewPCG(1, 2)), Senders: 1,
			Do: func(ctx context.Context, n int, _ time.Time) time.Duration { <-ctx.Done(); return time.Second },
		}.Run(ctx)
		if err != nil || out.Left != out.Wishes-1 || out.Wishes < 60 || out.Wishes > 150 {
			t.Errorf("%+v, %v: all but one are left", out, err)
		}
		n := 0
		out, err = Offer{
			Begin: time.Now(), Length: time.Second, Rate: 100, Senders: 1, Stop: func() bool { n++; return n > 5 },
			Do: func(context.Context, int, time.Time) time.Duration { return 0 },
		}.Run(t.Context())
		if err != nil || out.Wishes != 5 || !out.GivenUp {
			t.Errorf("%+v, %v: given up after five", out, err)
		}
	})
}
