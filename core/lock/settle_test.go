package lock

import (
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"fencepost/core/store"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	const mine, other = "mine", "other"
	v := func(fence, beat int64, attempt, holder string) store.Version {
		return store.Version{Fence: fence, Beat: beat, Attempt: attempt, Holder: holder, TTL: time.Second}
	}
	free := v(4, 7, "release", "")
	acq := v(5, 0, mine, "me")
	held := v(5, 3, mine, "me")
	renewed := v(5, 4, mine, "me")
	released := v(5, 4, "my release", "")
	first := v(1, 0, mine, "me")
	type row = *store.Version
	p := func(v store.Version) row { return &v }
	for name, c := range map[string]struct {
		kind OpKind
		from row
		to   store.Version
		row  row
		want store.Outcome
	}{
		"acquire: the row is mine":                        {Acquire, &free, acq, &acq, store.OK},
		"acquire: another has this fence":                 {Acquire, &free, acq, p(v(5, 0, other, "you")), store.Fail},
		"acquire: another had this fence":                 {Acquire, &free, acq, p(v(5, 9, other, "")), store.Fail},
		"acquire: the old holder renewed":                 {Acquire, p(v(4, 7, other, "you")), acq, p(v(4, 8, other, "you")), store.Fail},
		"acquire: the old holder released":                {Acquire, p(v(4, 7, other, "you")), acq, p(v(4, 8, "release", "")), store.Fail},
		"acquire: two grants on":                          {Acquire, &free, acq, p(v(6, 0, other, "you")), store.Unknown},
		"acquire: many grants on":                         {Acquire, &free, acq, p(v(60, 3, other, "")), store.Unknown},
		"acquire: rejected on the named version":          {Acquire, &free, acq, &free, store.Unknown},
		"acquire: the row is gone":                        {Acquire, &free, acq, nil, store.Unknown},
		"acquire: the fence fell":                         {Acquire, &free, acq, p(v(3, 0, other, "you")), store.Unknown},
		"first acquire: the row is mine":                  {Acquire, nil, first, &first, store.OK},
		"first acquire: another was first":                {Acquire, nil, first, p(v(1, 2, other, "you")), store.Fail},
		"first acquire: two grants on":                    {Acquire, nil, first, p(v(2, 0, other, "you")), store.Unknown},
		"first acquire: still absent":                     {Acquire, nil, first, nil, store.Unknown},
		"first acquire: the row is of no grant":           {Acquire, nil, first, p(v(0, 3, other, "")), store.Unknown},
		"renew: the row is renewed":                       {Renew, &held, renewed, &renewed, store.OK},
		"renew: the row is as before, with my attempt":    {Renew, &held, renewed, &held, store.Unknown},
		"renew: taken over":                               {Renew, &held, renewed, p(v(6, 0, other, "you")), store.Unknown},
		"renew: taken over twice":                         {Renew, &held, renewed, p(v(7, 0, other, "you")), store.Unknown},
		"renew: the row is gone":                          {Renew, &held, renewed, nil, store.Unknown},
		"release: the row has the release's attempt":      {Release, &held, released, &released, store.OK},
		"release: still held":                             {Release, &held, released, &held, store.Unknown},
		"release: taken over":                             {Release, &held, released, p(v(6, 0, other, "you")), store.Unknown},
		"release: taken over, its attempt no longer seen": {Release, &held, released, p(v(6, 4, other, "")), store.Unknown},
		"release: the row is gone":                        {Release, &held, released, nil, store.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := settle(c.kind, c.from, c.to, c.row, 1); got != c.want {
				t.Errorf("after an earlier copy: %s, want %s", got, c.want)
			}
			if got := settle(c.kind, c.from, c.to, c.row, 0); got != store.Fail {
				t.Errorf("sole copy: %s, want fail", got)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o  Options
		ok bool
	}{
		"zero":                 {Options{}, true},
		"chaos":                {Options{TTL: 6 * time.Second}, true},
		"ttl below the margin": {Options{TTL: 150 * time.Millisecond}, false},
		"ttl with a fraction":  {Options{TTL: time.Second + time.Microsecond}, false},
		"negative ttl":         {Options{TTL: -time.Second}, false},
		"drift of a half":      {Options{DriftBound: 0.5}, false},
		"negative drift":       {Options{DriftBound: -0.1}, false},
		"negative base":        {Options{MarginBase: -1}, false},
		"negative timeout":     {Options{RequestTimeout: -1}, false},
		"backoff reversed":     {Options{Backoff: Backoff{Min: time.Second, Max: time.Millisecond}}, false},
		"backoff negative":     {Options{Backoff: Backoff{Min: -1}}, false},
		"backoff always 1 ns":  {Options{Backoff: Backoff{Min: 1, Max: 1}}, true},
		"short ttl, no base":   {Options{TTL: 100 * time.Millisecond, MarginBase: time.Millisecond}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := c.o.withDefaults(); (err == nil) != c.ok {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestDefaults: they are what Options says.
func TestDefaults(t *testing.T) {
	t.Parallel()
	o, err := Options{}.withDefaults()
	if err != nil || o.TTL != 30*time.Second || o.DriftBound != 0.01 || o.MarginBase != 100*time.Millisecond ||
		o.Backoff != (Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second}) {
		t.Errorf("%+v, %v", o, err)
	}
	if one, other := o.NewID(), o.NewID(); o.Clock == nil || o.Rand == nil || o.Logger == nil || one == other {
		t.Error("a client without a clock, chance, a logger or ids of its own")
	}
}

// TestTexts: what an error and a kind say of themselves.
func TestTexts(t *testing.T) {
	t.Parallel()
	held := &store.Version{Fence: 7, Holder: "you"}
	for want, err := range map[string]error{
		`lock "r": lock: held by another`:                                                                         &AcquireError{Resource: "r", Reason: ErrHeld},
		`lock "r": lock: held by another (last seen held by "you", token 7)`:                                      &AcquireError{Resource: "r", Reason: ErrHeld, Row: held},
		`lock "r": lock: client is closed`:                                                                        &AcquireError{Resource: "r", Reason: ErrClosed, Row: &store.Version{Fence: 7}},
		`lock "r": lock: client is closed; last failure: EOF`:                                                     &AcquireError{Resource: "r", Reason: ErrClosed, Last: io.EOF},
		"lock \"r\": lock: client is closed; a request is still unsettled and will be released in the background": &AcquireError{Resource: "r", Reason: ErrClosed, Unsettled: true},
	} {
		if err.Error() != want {
			t.Errorf("%s\nwant %s", err, want)
		}
	}
	for k, want := range map[OpKind]string{0: "op(0)", 1: "acquire", 2: "renew", 3: "release", 4: "read", 5: "op(5)", -1: "op(-1)"} {
		if k.String() != want {
			t.Errorf("%d: %s, want %s", int(k), k, want)
		}
	}
}

// TestDurations: what a client draws, and how long it waits for an answer.
func TestDurations(t *testing.T) {
	t.Parallel()
	c := &Client{opt: Options{Rand: rand.New(rand.NewPCG(1, 2))}}
	const d, near = time.Second, 20 * time.Millisecond
	least, most := 2*d, time.Duration(0)
	for range 1000 {
		j := c.jitter(d)
		least, most = min(least, j), max(most, j)
	}
	if least < d/2 || least > d/2+near || most < 3*d/2-near || most >= 3*d/2 {
		t.Errorf("jitter of %s is from %s to %s", d, least, most)
	}
	if c.draw(0) != 0 || c.draw(-1) != 0 {
		t.Error("something is drawn from nothing")
	}
	for _, w := range []struct{ option, ttl, want time.Duration }{
		{0, 6 * time.Second, time.Second}, {0, 600 * time.Millisecond, 100 * time.Millisecond},
		{0, 3 * time.Millisecond, time.Millisecond}, {1, 6 * time.Second, 1},
	} {
		c.opt.RequestTimeout = w.option
		if got := c.requestTimeout(w.ttl); got != w.want {
			t.Errorf("an answer about a ttl of %s is waited for for %s, want %s", w.ttl, got, w.want)
		}
	}
}

// TestWatched: another's row is remembered for 10 of its ttls.
func TestWatched(t *testing.T) {
	t.Parallel()
	const ttl = 8 * time.Second
	for name, c := range map[string]struct {
		row  *store.Version
		idle time.Duration
		want bool
	}{
		"held":           {&store.Version{Holder: "you", TTL: ttl}, 10*ttl - 1, true},
		"held, long ago": {&store.Version{Holder: "you", TTL: ttl}, 10 * ttl, false},
		"free":           {&store.Version{TTL: ttl}, 0, false},
		"absent":         {nil, 0, false},
	} {
		r := newResource("r")
		r.learn(c.row, 0, plainRead)
		if r.watched(c.idle) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// Remembered is the number of resources whose rows a client remembers, and of leases.
func Remembered(c *Client) (resources, leases int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.resources), len(c.leases)
}
