package schedule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"fencepost/core/job"
)

// Kind is how a schedule finds its nominal times.
type Kind string

// The kinds.
const (
	Now        Kind = "now"         // once, at once
	At         Kind = "at"          // once
	Cron       Kind = "cron"        // at the times that a cron expression names in a time zone
	FixedRate  Kind = "fixed_rate"  // every so often, however long the jobs take
	FixedDelay Kind = "fixed_delay" // so long after the end of the occurrence before
)

// Misfire says what becomes of nominal times that come to be fired late: by more than
// Grace, as nobody was there to fire them.
type Misfire string

// The policies.
const (
	// MisfireSkip misses them.
	MisfireSkip Misfire = "skip"
	// MisfireOnce fires the latest of them, unless there are times that are not late:
	// those make up for it. The others are missed.
	MisfireOnce Misfire = "once"
	// MisfireAll fires all that are late by at most Window, one after the other, and
	// misses those before.
	MisfireAll Misfire = "all"
)

// Overlap says what becomes of a nominal time that comes before the occurrence before
// it has ended: its job, and those that follow it in its sequence. A job in the dead
// letter queue has ended, and does not count when it is redriven.
type Overlap string

// The policies.
const (
	// OverlapAllow fires it all the same.
	OverlapAllow Overlap = "allow"
	// OverlapSkip passes it over.
	OverlapSkip Overlap = "skip"
	// OverlapQueue fires it when the others before it have ended. At most MaxQueue
	// wait; others are passed over.
	OverlapQueue Overlap = "queue"
)

// Limits and defaults of a Definition.
const (
	DefaultGrace  = time.Minute
	DefaultWindow = 24 * time.Hour
	// MinEvery is the shortest distance of a rate or delay.
	MinEvery = time.Second
	// MaxSpan bounds Every, Grace and Window.
	MaxSpan = 10 * 366 * 24 * time.Hour
	// MaxKey and MaxTrigger bound the names of a schedule and of a trigger, in bytes.
	MaxKey     = 200
	MaxTrigger = 64
	MaxQueue   = 20
)

// Timing is when a schedule fires.
type Timing struct {
	Kind Kind `json:"kind"`
	// At is the instant of Kind At, and the first time of a fixed rate or delay (default:
	// when the schedule was put); nothing of a Cron fires before it. A fixed rate
	// keeps to it even if it is past. Whole milliseconds.
	At time.Time `json:"at,omitzero"`
	// Until is after the last time of a Cron, a rate or a delay; default: there is none.
	// Whole milliseconds.
	Until time.Time `json:"until,omitzero"`
	// Cron is "[second] minute hour day-of-month month day-of-week", or @hourly, @daily,
	// @weekly, @monthly, @yearly. If neither of the days is *, one of them is enough.
	Cron string `json:"cron,omitempty"`
	// Zone is the IANA name of Cron's time zone, as Asia/Ho_Chi_Minh; default UTC.
	Zone string `json:"zone,omitempty"`
	// Every is the distance of a rate or delay, whole milliseconds, in nanoseconds in JSON.
	Every time.Duration `json:"every,omitempty"`
}

// Definition is what a client puts. Durations are nanoseconds in JSON.
type Definition struct {
	Queue string `json:"queue"`
	// Key names the schedule in its queue.
	Key string `json:"key"`
	Timing
	// Misfire defaults to once, Grace to 1 min; Window, of the policy all, to 24 h.
	Misfire Misfire       `json:"misfire"`
	Grace   time.Duration `json:"grace"`
	Window  time.Duration `json:"window,omitempty"`
	// Overlap defaults to skip.
	Overlap Overlap `json:"overlap"`
	// Job is what is enqueued for each nominal time: a job without ID, Queue, Key and
	// Due, and in Then what follows it.
	Job job.Job `json:"job"`
}

// InvalidError is a definition that no store will take.
type InvalidError struct{ Field, Reason string }

func (e *InvalidError) Error() string { return "schedule: " + e.Field + " " + e.Reason }

// WithDefaults fills in what is not set.
func (d Definition) WithDefaults() Definition {
	d.Misfire = cmp.Or(d.Misfire, MisfireOnce)
	d.Grace = cmp.Or(d.Grace, DefaultGrace)
	if d.Misfire == MisfireAll && d.Window == 0 {
		d.Window = DefaultWindow
	}
	d.Overlap = cmp.Or(d.Overlap, OverlapSkip)
	if d.Kind == Cron && d.Zone == "" {
		d.Zone = "UTC"
	}
	// Equal definitions are equal.
	d.At, d.Until = d.At.UTC().Round(0), d.Until.UTC().Round(0)
	d.Job = d.Job.WithDefaults()
	return d
}

func (d Definition) check(shards int) error {
	bad := func(field, format string, args ...any) error {
		return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case d.Queue == "":
		return bad("queue", "is empty")
	case d.Key == "" || len(d.Key) > MaxKey:
		return bad("key", "has %d bytes: want 1 to %d", len(d.Key), MaxKey)
	case !utf8.ValidString(d.Key):
		return bad("key", "is %q, which is not valid UTF-8", d.Key)
	case d.Misfire != MisfireSkip && d.Misfire != MisfireOnce && d.Misfire != MisfireAll:
		return bad("misfire", "is %q: want %q, %q or %q", d.Misfire, MisfireSkip, MisfireOnce, MisfireAll)
	case d.Grace < 0 || d.Grace > MaxSpan:
		return bad("grace", "is %s: want 0 to %s", d.Grace, MaxSpan)
	case d.Misfire != MisfireAll && d.Window != 0:
		return bad("window", "is %s: only the misfire policy %q has one", d.Window, MisfireAll)
	case d.Misfire == MisfireAll && (d.Window < d.Grace || d.Window > MaxSpan):
		return bad("window", "is %s: want the grace, %s, to %s", d.Window, d.Grace, MaxSpan)
	case d.Overlap != OverlapAllow && d.Overlap != OverlapSkip && d.Overlap != OverlapQueue:
		return bad("overlap", "is %q: want %q, %q or %q", d.Overlap, OverlapAllow, OverlapSkip, OverlapQueue)
	case d.Kind == FixedDelay && d.Misfire != MisfireOnce:
		return bad("misfire", "is %q: a fixed delay has one time only that can be late, and fires it", d.Misfire)
	case d.Kind == FixedDelay && d.Overlap == OverlapAllow:
		return bad("overlap", "is %q: a fixed delay begins when the occurrence before has ended", d.Overlap)
	}
	return d.Job.CheckTemplate(d.Queue, shards)
}

// check reports what is missing, wrong, or of another kind.
func (t Timing) check() error {
	bad := func(field, format string, args ...any) error {
		return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	paced := t.Kind == FixedRate || t.Kind == FixedDelay
	switch {
	case t.Kind != Now && t.Kind != At && t.Kind != Cron && !paced:
		return bad("kind", "is %q: want %q, %q, %q, %q or %q", t.Kind, Now, At, Cron, FixedRate, FixedDelay)
	case t.Kind == At && t.At.IsZero():
		return bad("at", "is missing: when is it to fire?")
	case t.Kind == Now && !t.At.IsZero():
		return bad("at", "is for other kinds than %q", t.Kind)
	case !t.At.IsZero() && (t.At.Unix() < 0 || t.At.Unix() > lastSecond):
		return bad("at", "is %s: want the years 1970 to 9999", t.At)
	case t.At.Nanosecond()%int(time.Millisecond) != 0:
		return bad("at", "is %s: want whole milliseconds", t.At)
	case !t.Until.IsZero() && t.Kind != Cron && !paced:
		return bad("until", "is for the kinds %q, %q and %q", Cron, FixedRate, FixedDelay)
	case !t.Until.IsZero() && (t.Until.Unix() < 0 || t.Until.Unix() > lastSecond || t.Until.Before(t.At)):
		return bad("until", "is %s: want the years 1970 to 9999, and not before at", t.Until)
	case t.Until.Nanosecond()%int(time.Millisecond) != 0:
		return bad("until", "is %s: want whole milliseconds", t.Until)
	case t.Kind != Cron && (t.Cron != "" || t.Zone != ""):
		return bad("cron", "and zone are for the kind %q", Cron)
	case !paced && t.Every != 0:
		return bad("every", "is for the kinds %q and %q", FixedRate, FixedDelay)
	case paced && (t.Every < MinEvery || t.Every > MaxSpan || t.Every%time.Millisecond != 0):
		return bad("every", "is %s: want %s to %s in whole milliseconds", t.Every, MinEvery, MaxSpan)
	}
	return nil
}

// parse reads the cron expression and finds the zone.
func (t Timing) parse() (zoned, error) {
	p, err := parsePattern(t.Cron)
	if err != nil {
		return zoned{}, err
	}
	zone, err := time.LoadLocation(t.Zone)
	if err != nil || t.Zone == "Local" {
		return zoned{}, &InvalidError{Field: "zone", Reason: fmt.Sprintf("is %q: want an IANA name such as Asia/Ho_Chi_Minh: %v", t.Zone, err)}
	}
	return zoned{p, zone}, nil
}

// Schedule is a definition that has been checked and can be asked for its times.
type Schedule struct {
	Definition
	shards int
	cron   zoned
}

// New checks a definition for a queue of so many shards. The error is an
// *InvalidError, or a *job.InvalidError for its job.
func New(d Definition, shards int) (*Schedule, error) {
	d = d.WithDefaults()
	if err := d.check(shards); err != nil {
		return nil, err
	}
	if err := d.Timing.check(); err != nil {
		return nil, err
	}
	s := &Schedule{Definition: d, shards: shards}
	if d.Kind == Cron {
		var err error
		if s.cron, err = d.parse(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// ID is the schedule's place in its queue.
func (s *Schedule) ID() job.ID { return job.ScheduleID(s.Queue, s.Key, s.shards) }

// JobOf makes the job of an occurrence.
func (s *Schedule) JobOf(o job.Occurrence) job.Job {
	return o.Job(s.Definition.Job, s.Queue, s.shards)
}

// Encode returns the definition as JSON.
func (d Definition) Encode() ([]byte, error) { return json.Marshal(d) }

// Decode reads what Encode wrote.
func Decode(body []byte) (Definition, error) {
	var d Definition
	if err := json.Unmarshal(body, &d); err != nil {
		return Definition{}, &InvalidError{Field: "body", Reason: err.Error()}
	}
	return d, nil
}
