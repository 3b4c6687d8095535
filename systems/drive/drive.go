package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// Locker is a lock, as one client uses it. Names are those of locks, ids of attempts to take
// one; no two attempts have the same.
type Locker interface {
	// Acquire tries once to take a lock for ttl. token is the lock's fencing token, 0 if it has
	// none. An error leaves open whether it was taken; Acquire may be called again with the same
	// id then, and says that it is taken if it was.
	Acquire(ctx context.Context, name, id string, ttl time.Duration) (token int64, taken bool, err error)
	// Renew lets the lease begin again, if it is still that of id.
	Renew(ctx context.Context, name, id string, ttl time.Duration) (renewed bool, err error)
	// Release gives the lock back, if it is still that of id.
	Release(ctx context.Context, name, id string) (released bool, err error)
	// Holder is the id that has the lock, "" if nobody has.
	Holder(ctx context.Context, name string) (id string, err error)
	// Seal takes the lock for ever, under an id, if nobody has it. An error leaves open whether it
	// was taken.
	Seal(ctx context.Context, name, id string) (sealed bool, err error)
	Close() error
}

// ErrGone is in the errors of a Locker that can do nothing any more. The program ends then.
var ErrGone = errors.New("the lock is gone for good")

// Lock is a kind of Locker.
type Lock struct {
	// Setup makes what locks need in the store, once; nil: they need nothing.
	Setup func(ctx context.Context, at Place) error
	// Open connects to the nodes.
	Open func(ctx context.Context, at Place) (Locker, error)
	// Fenced: the lock has a token, and the sink checks it. Else writes go past its check, and
	// what stands for a token in the history is the time at which a client knew that it had the
	// lock: the numbers rise from grant to grant.
	Fenced bool
	// Leaseless: the lock is held until its session ends, which is before the deadline that is counted
	// here if its client dies. So that no two are entitled at once by their deadlines is not promised.
	Leaseless bool
	// Trusting: a holder goes by what the lock answers to a renewal, as its users do: a lease that has
	// lapsed by its own count goes on if it is renewed. What goes by that count is not promised.
	Trusting bool
	// Owes: the lock itself sends a release again that had no answer, later. The client asks once.
	Owes bool
	// Unseen are points before requests that do not have the attempt's id, so that nobody could
	// tell on the links when they left. They are not offered.
	Unseen []string
}

// promises are the properties that a lock whose entry vanishes can keep.
func (l Lock) promises() []string {
	return slices.DeleteFunc([]string{"P3", "P4", "P7", "P8", "P10"}, func(p string) bool {
		return p == "P3" && !l.Fenced || p == "P7" && l.Trusting || p == "P8" && (l.Leaseless || l.Trusting)
	})
}

// points are those at which clients ask the harness.
func (l Lock) points() (out []string) {
	for _, p := range []string{"holding", "acquire-sent", "renew-sent", "release-sent", "effect-sent"} {
		if !slices.Contains(l.Unseen, p) {
			out = append(out, p)
		}
	}
	return out
}

// asksOnce: a request without an answer is not sent again.
func (l Lock) asksOnce(op string) bool { return op == "release" && l.Owes }

// Main carries out the task that the environment names, with the lock that the command line names. It
// does not return.
func Main(locks map[string]Lock) {
	l := chosen(locks)
	carryOut(map[string]func() error{
		"setup": func() error { return setUp(l) },
		"work":  func() error { return work(l) },
		"seal":  func() error { return seal(l) },
		"bench": func() error { return bench(l) },
	})
}

// chosen is what the command line names. Of another name, or none, the process ends with the usage.
func chosen[T any](of map[string]T) (it T) {
	if len(os.Args) == 2 {
		if it, ok := of[os.Args[1]]; ok {
			return it
		}
	}
	fmt.Fprintf(os.Stderr, "usage: %s NAME; the names are %s\n", filepath.Base(os.Args[0]), strings.Join(slices.Sorted(maps.Keys(of)), ", "))
	os.Exit(64)
	return it
}

// carryOut ends the process with the outcome of the task that the environment names.
func carryOut(tasks map[string]func() error) {
	task := variable("TASK")
	run, ok := tasks[task]
	if !ok {
		run = func() error {
			return fmt.Errorf("FENCEPOST_TASK=%q: this program is started by fencepost (docs/own-system.md)", task)
		}
	}
	fail(run())
	os.Exit(0)
}

// fail ends the process if there is an error.
func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func variable(name string) string { return os.Getenv("FENCEPOST_" + name) }

func words(name string) []string {
	return strings.FieldsFunc(variable(name), func(r rune) bool { return r == ',' })
}

func number(name string) int {
	n, err := strconv.Atoi(variable(name))
	if err != nil {
		panic(fmt.Sprintf("FENCEPOST_%s: %v", name, err)) // the harness's mistake
	}
	return n
}

func millis(name string) time.Duration { return time.Duration(number(name)) * time.Millisecond }

func (l Lock) open(ctx context.Context) (Locker, error) { return l.Open(ctx, place()) }

func place() Place {
	return Place{words("NODES"), variable("KEYSPACE"), words("LOCKS"), millis("TTL_MS"), variable("SECRET")}
}

// setUpTime bounds what is done before clients work.
const setUpTime = time.Minute

// setUp waits until the store answers, which one that has just been made may not do yet, and says what is
// offered.
func setUp(l Lock) error {
	ctx, cancel := context.WithTimeout(context.Background(), setUpTime)
	defer cancel()
	if l.Setup != nil {
		if err := l.Setup(ctx, place()); err != nil {
			return err
		}
	}
	locker, err := l.open(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(free(ctx, locker, "setup"), locker.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"points": l.points(), "promises": l.promises()})
}

// work lets clients compete until SIGTERM.
func work(l Lock) error {
	h, err := openHistory()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var clients []*client
	for n := range number("CLIENTS") {
		c, err := newClient(ctx, l, h, n)
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	if err := ready(); err != nil {
		return err
	}
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { errs[i] = errors.Join(c.run(ctx), c.locker.Close()) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return h.note(event{"op": "exit", "proc": h.life})
}

// sealTime is for how long locks are waited for that dead clients have left: no lease is longer.
const sealTime = time.Minute

// seal takes every lock for ever, when all leases are over.
func seal(l Lock) error {
	h, err := openHistory()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sealTime)
	defer cancel()
	locker, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer locker.Close()
	// First all are waited for: the first seal may end what lets the others expire.
	for _, name := range words("LOCKS") {
		if err := free(ctx, locker, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range words("LOCKS") {
		for sealed := false; !sealed; {
			if sealed, err = sealOnce(ctx, h, locker, name); err != nil {
				return fmt.Errorf("seal %s: %w", name, err)
			}
		}
		if _, err := read(ctx, h, locker, name); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
	return h.note(event{"op": "exit", "proc": h.life})
}

// free waits until nobody has a lock.
func free(ctx context.Context, locker Locker, name string) error {
	for {
		holder, err := holderOf(ctx, locker, name)
		if err == nil && holder == "" {
			return nil
		}
		if e := pause(ctx, 50*time.Millisecond); e != nil {
			return errors.Join(fmt.Errorf("%q still has it: %w", holder, e), err)
		}
	}
}

// holderOf asks once who has a lock.
func holderOf(ctx context.Context, locker Locker, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout())
	defer cancel()
	return locker.Holder(ctx, name)
}

// sealOnce looks and takes the lock for ever, if nobody has it.
func sealOnce(ctx context.Context, h *record, locker Locker, name string) (sealed bool, err error) {
	holder, err := read(ctx, h, locker, name)
	if err != nil || holder != "" {
		return false, errors.Join(err, pause(ctx, 50*time.Millisecond))
	}
	to := version{Fence: stamp(), Attempt: uuid.NewString(), TTL: millis("TTL_MS").Milliseconds()}
	op, err := h.invoke(h.life, "seal", name, event{"from": absent(), "to": to})
	if err != nil {
		return false, err
	}
	var sent []int64
	for {
		sent = append(sent, now())
		once, cancel := context.WithTimeout(ctx, tryTimeout())
		sealed, err = locker.Seal(once, name, to.Attempt)
		if !sealed && (err != nil || len(sent) > 1) { // perhaps it was: the entry tells
			if holder, e := locker.Holder(once, name); e == nil {
				sealed, err = holder == to.Attempt, nil
				if holder == "" {
					err = errors.New("nobody has it yet")
				}
			}
		}
		cancel()
		switch {
		case err == nil && sealed:
			return true, h.end(op, "ok", event{"sends": sent})
		case err == nil && len(sent) == 1:
			return false, errors.Join(h.end(op, "fail", event{"sends": sent, "error": "somebody else has it"}), pause(ctx, 50*time.Millisecond))
		case err == nil:
			return false, h.end(op, "unknown", event{"sends": sent, "error": "somebody else has it, after an unanswered copy"})
		case pause(ctx, 50*time.Millisecond) != nil:
			return false, errors.Join(h.end(op, "unknown", event{"sends": sent, "error": err.Error()}), err)
		}
	}
}

// read looks who has a lock, and records that. An entry is known by its id alone.
func read(ctx context.Context, h *record, locker Locker, name string) (holder string, err error) {
	for {
		look, err := h.invoke(h.life, "read", name, nil)
		if err != nil {
			return "", err
		}
		holder, failed := holderOf(ctx, locker, name)
		if failed == nil {
			row := absent()
			if holder != "" {
				row = version{Attempt: holder, TTL: millis("TTL_MS").Milliseconds()}
			}
			return holder, h.end(look, "ok", event{"row": row})
		}
		if err := errors.Join(h.end(look, "unknown", event{"error": failed.Error()}), pause(ctx, 50*time.Millisecond)); err != nil {
			return "", err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
