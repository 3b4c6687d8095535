package drive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// tryTimeout bounds one copy of a request to the store: a long lease has time for a store that takes some
// seconds.
func tryTimeout() time.Duration { return max(time.Second, millis("TTL_MS")/6) }

// patience bounds all copies of a request. As many are sent as fail in that time: a connection that breaks
// when its server comes back costs no more of it than it took.
func patience() time.Duration { return 3 * tryTimeout() }

// between is the pause before the next copy.
const between = 50 * time.Millisecond

// actor is one of the procs of a life: it does one thing after the other.
type actor struct {
	record *record
	sink   *sink
	proc   string
	number int
	random *rand.Rand
}

func newActor(r *record, n int, effects string) (*actor, error) {
	proc := fmt.Sprintf("%s/c%d", r.life, n+1)
	seed, err := strconv.ParseUint(variable("SEED"), 10, 64)
	if err != nil {
		return nil, err
	}
	var own uint64
	for _, b := range []byte(proc) {
		own = own*31 + uint64(b)
	}
	return &actor{record: r, sink: newSink(r, proc, effects), proc: proc, number: n, random: rand.New(rand.NewPCG(seed, own))}, nil
}

// about is half to one and a half of d.
func (a *actor) about(d time.Duration) time.Duration {
	return time.Duration((0.5 + a.random.Float64()) * float64(d))
}

// client takes a lock, writes to what it protects, gives the lock back, and begins again.
type client struct {
	*actor
	lock   Lock
	locker Locker
	ttl    time.Duration
	margin time.Duration
	grants int
}

func newClient(ctx context.Context, l Lock, r *record, n int) (*client, error) {
	locker, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	effects := byKey // a key is one grant's
	if l.Fenced {
		effects = byToken
	}
	a, err := newActor(r, n, effects)
	if err != nil {
		return nil, err
	}
	return &client{actor: a, lock: l, locker: locker, ttl: millis("TTL_MS"), margin: millis("MARGIN_MS")}, nil
}

// held is a lock that the client has.
type held struct {
	name     string
	version  version
	token    int64
	deadline time.Duration // by awake
}

func (h *held) valid() bool { return awake() < h.deadline }

// run works until ctx is over. An error is one of the record or of the harness.
func (c *client) run(ctx context.Context) error {
	names, think := words("LOCKS"), millis("THINK_MS")
	for ctx.Err() == nil {
		name := names[c.random.IntN(len(names))]
		if variable("PICK") == "own" {
			name = names[c.number]
		}
		if err := c.cycle(ctx, name); err != nil {
			return err
		}
		_ = pause(ctx, c.about(think)) // the loop looks
	}
	return nil
}

func (c *client) cycle(ctx context.Context, name string) error {
	call, err := c.record.invoke(c.proc, "lock", name, nil)
	if err != nil {
		return err
	}
	h, err := c.acquire(ctx, name)
	if err != nil {
		return err
	}
	if h == nil {
		return c.record.end(call, "fail", event{"error": "given up"})
	}
	if err := c.record.end(call, "ok", event{"token": h.token}); err != nil {
		return err
	}
	c.grants++
	if err := c.critical(h); err != nil {
		return err
	}
	return c.release(h)
}

// acquire tries until the client has the lock, has waited for too long or is told to end.
func (c *client) acquire(ctx context.Context, name string) (*held, error) {
	wait := 20 * time.Millisecond
	for until := awake() + millis("ACQUIRE_TIMEOUT_MS"); ctx.Err() == nil && awake() < until; {
		h, err := c.try(name)
		if h != nil || err != nil {
			return h, err
		}
		// Who has waited for long tries more seldom.
		_ = pause(ctx, c.about(wait)) // the loop looks
		wait = min(wait*3/2, 250*time.Millisecond)
	}
	return nil, nil
}

// try tries once.
func (c *client) try(name string) (*held, error) {
	h := &held{name: name, version: version{Fence: stamp(), Attempt: uuid.NewString(), Holder: c.proc, TTL: c.ttl.Milliseconds()}}
	var token int64
	first, taken, err := c.change("acquire", name, absent(), h.version, func(ctx context.Context) (ok bool, err error) {
		token, ok, err = c.locker.Acquire(ctx, name, h.version.Attempt, c.ttl)
		return ok, err
	})
	if err != nil || !taken {
		return nil, err
	}
	if h.token = token; !c.lock.Fenced {
		h.token = stamp()
	}
	h.deadline = first + c.ttl - c.margin
	if !h.valid() { // known too late: given back
		return nil, c.release(h)
	}
	return h, nil
}

// change makes one change of a lock's entry and records it; ask is one copy of it. first is
// when the first copy left, from which alone a holder may count its lease.
func (c *client) change(op, name string, from, to version, ask func(context.Context) (bool, error)) (first time.Duration, done bool, err error) {
	head, err := c.record.invoke(c.proc, op, name, event{"from": from, "to": to})
	if err != nil {
		return 0, false, err
	}
	if !slices.Contains(c.lock.Unseen, op+"-sent") {
		if _, err := point(op+"-sent", c.proc, name); err != nil {
			return 0, false, err
		}
	}
	first = awake()
	var left []int64
	var last error
	for over := first + patience(); len(left) == 0 || awake()+between < over && !c.lock.asksOnce(op); time.Sleep(between) {
		left = append(left, now())
		ctx, cancel := context.WithTimeout(context.Background(), min(tryTimeout(), over-awake()))
		var ok bool
		ok, last = ask(ctx)
		cancel()
		switch {
		case errors.Is(last, ErrGone):
			return first, false, last
		case last != nil:
			continue
		case ok:
			return first, true, c.record.end(head, "ok", event{"sends": left})
		case len(left) == 1:
			return first, false, c.record.end(head, "fail", event{"sends": left, "error": "somebody else has it"})
		}
		// It was refused, but an earlier copy may have been carried out and undone since.
		return first, false, c.record.end(head, "unknown", event{"sends": left, "error": "refused after an unanswered copy"})
	}
	return first, false, c.record.end(head, "unknown", event{"sends": left, "error": last.Error()})
}

// critical is what the lock is for.
func (c *client) critical(h *held) error {
	resource := "res-" + h.name
	if c.lock.Fenced {
		// First the token is made known: whatever an older holder writes is then refused, or is
		// in what is read next.
		if known, err := c.sink.raise(resource, h.name, h.token); err != nil || known != done {
			return err
		}
	}
	value, known, err := c.sink.get(resource)
	decided := now() // before the look at the lease
	if err != nil || !known || !h.valid() {
		return err
	}
	if err := c.record.note(event{"op": "start", "proc": c.proc, "key": h.name, "token": h.token, "decided_at": decided}); err != nil {
		return err
	}
	stay, err := point("holding", c.proc, h.name)
	if err != nil {
		return err
	}
	if stay == 0 {
		stay = c.about(millis("HOLD_MS"))
	}
	if err := c.hold(h, stay); err != nil {
		return err
	}
	decided = now()
	if h.valid() { // a process can be stopped right after this line
		key := fmt.Sprintf("%s/%s#%d", h.name, c.proc, c.grants)
		before := func() error { _, err := point("effect-sent", c.proc, h.name); return err }
		if _, err := c.sink.effect(resource, h.name, h.token, key, value+1, decided, before); err != nil {
			return err
		}
	}
	return c.record.note(event{"op": "finish", "proc": c.proc, "key": h.name, "token": h.token})
}

// hold is the protected work; the lease is renewed beside it.
func (c *client) hold(h *held, stay time.Duration) error {
	until, renew := awake()+stay, awake()+c.ttl/3
	for awake() < until && h.valid() {
		if awake() >= renew {
			to := h.version
			to.Beat++
			first, done, err := c.change("renew", h.name, h.version, to, func(ctx context.Context) (bool, error) {
				return c.locker.Renew(ctx, h.name, h.version.Attempt, c.ttl)
			})
			switch {
			case err != nil:
				return err
			case !done:
				h.deadline = 0 // perhaps it took effect; nothing is built on that
			case h.valid() || c.lock.Trusting: // else a lapsed lease is never revived
				h.version, h.deadline, renew = to, first+c.ttl-c.margin, first+c.ttl/3
			}
		}
		time.Sleep(max(0, min(20*time.Millisecond, until-awake())))
	}
	return nil
}

// release gives the lock back, as long as it is the client's.
func (c *client) release(h *held) error {
	if h.valid() {
		_, done, err := c.change("release", h.name, h.version, absent(), func(ctx context.Context) (bool, error) {
			return c.locker.Release(ctx, h.name, h.version.Attempt)
		})
		if err != nil || done {
			return err
		}
	}
	return c.record.note(event{"op": "lease-lost", "proc": c.proc, "key": h.name, "token": h.token, "error": "its deadline has passed, or it could not be given back"})
}
