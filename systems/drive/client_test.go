package drive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestChange: a request is sent again until there is an answer, for as long as a client has patience and no
// matter how fast copies fail; a lock that can do nothing any more ends its client at once.
func TestChange(t *testing.T) {
	t.Setenv("FENCEPOST_TTL_MS", "6000")
	file, err := os.Create(filepath.Join(t.TempDir(), "history"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	broken := errors.New("EOF")
	for name, k := range map[string]struct {
		op    string
		ask   func(ctx context.Context, copy int) (bool, error)
		sends int
		took  time.Duration
		done  bool
		gone  bool
	}{
		"gone":       {"acquire", func(context.Context, int) (bool, error) { return false, fmt.Errorf("%w: it ended", ErrGone) }, 1, 0, false, true},
		"no answers": {"renew", func(ctx context.Context, _ int) (bool, error) { <-ctx.Done(); return false, ctx.Err() }, 3, patience(), false, false},
		"the third is broken off, the next answered": {"renew", func(ctx context.Context, copy int) (bool, error) {
			switch copy {
			case 1, 2:
				<-ctx.Done()
				return false, ctx.Err()
			case 3:
				return false, broken
			}
			return true, nil
		}, 4, 2 * tryTimeout(), true, false},
		"fast failures": {"renew", func(_ context.Context, copy int) (bool, error) {
			return copy == 8, map[bool]error{true: broken}[copy < 8]
		}, 8, 7 * between, true, false},
		"once": {"release", func(context.Context, int) (bool, error) { return false, broken }, 1, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &client{lock: Lock{Unseen: []string{"acquire-sent", "renew-sent", "release-sent"}, Owes: true}, actor: &actor{record: &record{life: "w1.1", file: file}, proc: "w1.1/c1"}}
			asked, began := 0, awake()
			_, done, err := c.change(k.op, "lock", absent(), version{}, func(ctx context.Context) (bool, error) {
				asked++
				return k.ask(ctx, asked)
			})
			if done != k.done || asked != k.sends || errors.Is(err, ErrGone) != k.gone || !k.gone && err != nil {
				t.Errorf("sent %d times, done: %t, %v", asked, done, err)
			}
			if took := awake() - began; took < k.took-between {
				t.Errorf("it took %v, want %v at least", took, k.took)
			}
		})
	}
}

// late is a lock on a store that answers the third time.
type late struct {
	Locker
	asked int
}

func (l *late) Holder(context.Context, string) (string, error) {
	if l.asked++; l.asked < 3 {
		return "", errors.New("no responders available for request")
	}
	return "", nil
}

func (l *late) Close() error { return nil }

// TestSetUpWaits: a lock's store that has just been made may not answer yet.
func TestSetUpWaits(t *testing.T) {
	t.Setenv("FENCEPOST_NODES", "127.0.0.1:1")
	t.Setenv("FENCEPOST_TTL_MS", "6000")
	l := &late{}
	if err := setUp(Lock{Open: func(context.Context, Place) (Locker, error) { return l, nil }}); err != nil || l.asked != 3 {
		t.Errorf("asked %d times, %v", l.asked, err)
	}
}
