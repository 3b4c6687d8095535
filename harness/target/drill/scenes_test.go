package drill

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/checker"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// world is a row of which the victim may hold a proposal that nobody else accepted.
type world struct {
	// What an operation through another node does to that proposal: a sound one
	// kills it.
	readsKill, rejectsKill bool
	ttl                    bool

	mu         sync.Mutex
	row        *store.Version
	until      time.Time      // of the holder, with ttl
	pending    *store.Version // accepted by the victim alone
	incomplete bool           // writes through the victim become so
}

func (w *world) set(v store.Version) {
	w.row, w.until, w.pending = &v, time.Now().Add(v.TTL), nil
}

func (w *world) now() *store.Version {
	if w.row == nil || !w.ttl || time.Now().Before(w.until) {
		return w.row
	}
	v := expired(*w.row)
	return &v
}

// through is the row as one node's clients see it.
type through struct {
	*world
	node string
}

func (t through) settle(kills bool) {
	switch {
	case t.pending == nil:
	case t.node == victim:
		t.set(*t.pending)
	case kills:
		t.pending = nil
	}
}

func (t through) Read(context.Context, string, bool) (*store.Version, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle(t.readsKill)
	return t.now(), nil
}

func (t through) CAS(_ context.Context, _ string, from *store.Version, to store.Version, _ int) (store.CASResult, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	matches := store.Same(t.now(), from)
	if matches && t.incomplete && t.node == victim {
		t.pending = &to
		return store.CASResult{}, &store.Error{Op: "cas", Outcome: store.Unknown, ServerTimeout: true, Cause: errors.New("received only 1 responses")}
	}
	t.settle(matches || t.rejectsKill)
	if !store.Same(t.now(), from) {
		return store.CASResult{Row: t.now()}, nil
	}
	t.set(to)
	return store.CASResult{Applied: true}, nil
}

// play makes one armed attempt in the world and returns the checker's P2.
func play(t *testing.T, sc *scene, w *world) checker.Property {
	t.Helper()
	all := onStage(t, func(node string) store.Locks { return through{w, node} }, func(a *attempt) {
		if sc.prepare != nil {
			must(t, "prepare", sc.prepare(t.Context(), a))
		}
		w.incomplete = true
		if res := sc.write(t.Context(), a); !store.IsServerTimeout(res.err) {
			t.Fatalf("the write: %s", res)
		}
		must(t, "blind", sc.blind(t.Context(), a))
		w.incomplete = false
		must(t, "after", sc.after(t.Context(), a))
	})
	for id, p := range all {
		if id != "P2" && p.Status == checker.StatusFail {
			t.Errorf("%s failed: %+v", p.ID, p.Violations)
		}
	}
	return all["P2"]
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// onStage has an attempt's actors do something to a row, which is then sealed, and returns what
// the checker says of it.
func onStage(t *testing.T, row func(node string) store.Locks, do func(*attempt)) map[string]checker.Property {
	t.Helper()
	file := filepath.Join(t.TempDir(), "harness.jsonl")
	rec, err := history.NewRecorder(file, history.Header{Run: "r", Proc: "harness", Promises: Promises()})
	must(t, "record", err)
	at := func(proc, node string) *client { return &client{"harness/" + proc, row(node), rec} }
	a := &attempt{
		key: "row", holder: at("holder", victim), holderAtN2: at("holder", witness),
		rivalAtN1: at("rival", victim), rivalAtN2: at("rival", witness),
		observerAtN1: at("observer", victim), observerAtN2: at("observer", witness),
		rivalAtN3: at("rival", third),
		committed: func(context.Context) error { return nil },
	}
	do(a)
	must(t, "seal", (&client{"harness", row(third), rec}).seal(t.Context(), a.key))
	must(t, "record", rec.Close())
	h, err := history.ReadFiles(file)
	must(t, "read back", err)
	out := map[string]checker.Property{}
	for _, p := range checker.Check(t.Context(), h, checker.Options{}).Properties {
		out[p.ID] = p
	}
	return out
}

// TestEncodings plays each drill in sound and unsound worlds: the checker finds
// what is there to be found, by the encoding that can, and nothing else.
func TestEncodings(t *testing.T) {
	t.Parallel()
	const ok, illegal = "Ok", "Illegal"
	type verdict struct{ open, bounded string }
	sound, seen, always := verdict{ok, ok}, verdict{ok, illegal}, verdict{illegal, illegal}
	worlds := map[string]world{
		"sound":                    {readsKill: true, rejectsKill: true},
		"unsafe reads":             {rejectsKill: true},
		"unsafe rejections":        {readsKill: true},
		"unsafe reads, rejections": {},
	}
	want := map[string]map[string]verdict{
		IncompleteRead: {"sound": sound, "unsafe reads": seen, "unsafe rejections": sound, "unsafe reads, rejections": seen},
		RejectedCAS:    {"sound": sound, "unsafe reads": sound, "unsafe rejections": seen, "unsafe reads, rejections": seen},
		Release:        {"sound": sound, "unsafe reads": seen, "unsafe rejections": sound, "unsafe reads, rejections": seen},
		Lease:          {"sound": sound, "unsafe reads": always, "unsafe rejections": sound, "unsafe reads, rejections": always},
	}
	for name := range want {
		for kind := range worlds {
			t.Run(fmt.Sprintf("%s, %s", name, kind), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					sc, err := find(name)
					if err != nil {
						t.Fatal(err)
					}
					w := &world{readsKill: worlds[kind].readsKill, rejectsKill: worlds[kind].rejectsKill, ttl: sc.rows != nil}
					p := play(t, sc, w)
					got, want := verdict{p.Encodings["open"], p.Encodings["bounded"]}, want[name][kind]
					if got != want {
						t.Errorf("open and bounded %v, want %v", got, want)
					}
					if fails := p.Status == checker.StatusFail; fails != (want != sound) {
						t.Errorf("P2 is %s", p.Status)
					}
					// A write that nobody was told of needs the answer that shows it.
					if want == seen && !strings.Contains(p.Violations[0].Message, "took effect is shown by the read of harness/") {
						t.Errorf("the violation does not say why the write counts: %s", p.Violations[0].Message)
					}
				})
			})
		}
	}
}

// An expiry is no violation by itself: neither after a renewal that took effect in
// time, nor when the renewed lease expires before the row is sealed.
func TestExpiryIsNoViolation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The renewal is completed before anybody looks: it took effect in time.
		sc, err := find(Lease)
		if err != nil {
			t.Fatal(err)
		}
		early := *sc
		early.blind = readAtN1
		if p := play(t, &early, &world{ttl: true}); p.Status != checker.StatusPass {
			t.Errorf("P2 is %s: %+v", p.Status, p.Violations)
		}
		// And both leases expire before the row is sealed.
		late := *sc
		late.blind = readAtN1
		late.after = func(ctx context.Context, a *attempt) error {
			return errors.Join(pause(ctx, 2*LeaseTTL), readAtN2(ctx, a))
		}
		if p := play(t, &late, &world{ttl: true}); p.Status != checker.StatusPass {
			t.Errorf("P2 is %s: %+v", p.Status, p.Violations)
		}
	})
}

func TestFindDrill(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		if n, err := Attempts(name); err != nil || n < 1 {
			t.Errorf("%s: %d attempts, %v", name, n, err)
		}
	}
	if _, err := Attempts("paxos-nonsense"); err == nil {
		t.Error("an unknown drill was found")
	}
	if len(Expect().Faults) == 0 {
		t.Error("no armed attempt is demanded: a run that tested nothing would pass")
	}
}
