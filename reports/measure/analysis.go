package measure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// Analysis is what a history says in numbers. All instants are TS of events.
type Analysis struct {
	// Start is the first phase's begin (or the first event); End is when the
	// last client's operation ended, or the last event's instant without any.
	Start, End int64
	Ops        []history.Operation // by invocation
	Phases     []history.Span      // within Start and End or touching them
	Faults     []history.FaultWindow
	Latencies  Latencies
	Timeline   Timeline
	Grants     []Grant // by lock, then in the order of granting
	Takeovers  []Takeover
	Owners     []Grant // of shards, in the same order

	Points []Reach // by point and fault

	byID map[opRef]int
}

type opRef struct {
	life string
	id   int64
}

// Analyze measures h. An error means that numbers would be wrong (a latency out
// of bounds), never that there are few.
func Analyze(h *history.History) (*Analysis, error) {
	a := &Analysis{Phases: h.Phases(), Faults: h.Faults()}
	a.bounds(h)
	a.grants(past.New(h, false)) // not kept: it is garbage before the operations are joined
	a.Ops = h.Operations()
	a.byID = make(map[opRef]int, len(a.Ops))
	for i := range a.Ops {
		in := &a.Ops[i].Invoke
		a.byID[opRef{history.Life(in.Proc), in.ID}] = i
	}
	a.Points = Reaches(h, a.Ops)
	var err error
	if a.Latencies, err = a.latencies(h.JobSpans()); err != nil {
		return nil, err
	}
	a.Timeline = timeline(a)
	return a, nil
}

// bounds sets Start and End. The set-up before the first phase and the reads
// after the last client's operation are not part of what is plotted.
func (a *Analysis) bounds(h *history.History) {
	if len(h.Events) == 0 {
		return
	}
	a.Start, a.End = h.Events[0].TS, h.Events[0].TS
	if len(a.Phases) > 0 {
		a.Start = a.Phases[0].From
	}
	clients := false
	for i := range h.Events {
		if e := &h.Events[i]; e.Type != history.Note && Client(e.Proc) {
			clients = true
			a.End = max(a.End, e.TS)
		}
	}
	for _, f := range a.Faults {
		a.End = max(a.End, f.From)
	}
	if !clients {
		a.End = h.Events[len(h.Events)-1].TS
	}
	a.End = max(a.End, a.Start)
}

// Client says whether proc is a client of the system under test, and not the harness.
func Client(proc string) bool { return history.Worker(proc) != history.Harness }

// Operation finds the operation that event e is an end of, by e's process life
// and id.
func (a *Analysis) Operation(e history.Event) (history.Operation, bool) {
	if e.ID == 0 {
		return history.Operation{}, false
	}
	i, ok := a.byID[opRef{history.Life(e.Proc), e.ID}]
	if !ok {
		return history.Operation{}, false
	}
	return a.Ops[i], true
}

// PhaseAt returns the phase at ts, "" before the first.
func (a *Analysis) PhaseAt(ts int64) string { return history.PhaseAt(a.Phases, ts) }

// Phase returns the phase that an operation counts for: the one in which it was
// invoked, except that what was under way when the fault phase began counts for
// that. A wait that a fault struck would else be the slowest of "before".
func (a *Analysis) Phase(op history.Operation) string {
	return history.PhaseOf(a.Phases, op.Invoke.TS, op.End.TS)
}

// PhaseNames returns the names of the phases in order, each once.
func (a *Analysis) PhaseNames() []string {
	var out []string
	for _, p := range a.Phases {
		if !slices.Contains(out, p.Name) {
			out = append(out, p.Name)
		}
	}
	return out
}

// kinds are the operations in the order in which they are listed; what is not here follows by name.
var kinds = []struct {
	op    history.Op
	about string
}{
	{history.OpLock, "from asking for the lock to holding it"},
	{history.OpExtend, "from renewing the lease by hand to knowing that it is"},
	{history.OpClose, "from closing a lock client to the end of all that it has handed out"},
	{history.OpAcquire, "one compare-and-set that takes the lock, with its resends"},
	{history.OpRenew, "one compare-and-set that extends the lease"},
	{history.OpRelease, "one compare-and-set that gives the lock back"},
	{history.OpEnqueue, "from asking for a job to its acknowledgement"},
	{history.OpSchedule, "from giving a command on a schedule to its acknowledgement"},
	{history.OpCommand, "from giving a command on a job or a shard to its acknowledgement"},
	{OpStart, "from asking for a job that is due at once to its first run"},
	{OpRun, "one run of a job's handler, its effects included"},
	{history.OpUpdate, "the plain writes that say what becomes of a job"},
	{history.OpTake, "one conditional batch that takes a shard over"},
	{history.OpTick, "one conditional batch of a shard's owner, with all its jobs and resends"},
	{history.OpHandOver, "an owner's last batch"},
	{history.OpRaise, "showing the token to the sink"},
	{history.OpGet, "reading the protected value"},
	{history.OpEffect, "the fenced write to the sink"},
	{history.OpRead, "one SERIAL read of the lock's row"},
	{history.OpSeal, "the harness's own last compare-and-set"},
}

// place is that of an operation in the list.
func place(op history.Op) int {
	for i, k := range kinds {
		if k.op == op {
			return i
		}
	}
	return len(kinds)
}

// CompareOps orders operations as they are listed.
func CompareOps(a, b history.Op) int {
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

// OpTitle names an operation for a reader.
func OpTitle(op history.Op) string {
	if op == history.OpLock {
		return "lock wait"
	}
	return string(op)
}

// OpAbout says in a few words what an operation is.
func OpAbout(op history.Op) string {
	if i := place(op); i < len(kinds) {
		return kinds[i].about
	}
	return ""
}

// FormatDuration writes a duration with three significant digits: "850 µs",
// "12.4 ms", "3.05 s", "12 min 5 s".
func FormatDuration(d time.Duration) string {
	neg := ""
	if d < 0 {
		neg, d = "−", -d
	}
	switch {
	case d == 0:
		return "0"
	case d < time.Microsecond:
		return fmt.Sprintf("%s%d ns", neg, d)
	case d < time.Millisecond:
		return neg + digits3(float64(d)/float64(time.Microsecond)) + " µs"
	case d < time.Second:
		return neg + digits3(float64(d)/float64(time.Millisecond)) + " ms"
	case d < 2*time.Minute:
		return neg + digits3(d.Seconds()) + " s"
	}
	m := int(d / time.Minute)
	s := int((d % time.Minute) / time.Second)
	if m >= 120 {
		return fmt.Sprintf("%s%d h %d min", neg, m/60, m%60)
	}
	if s == 0 {
		return fmt.Sprintf("%s%d min", neg, m)
	}
	return fmt.Sprintf("%s%d min %d s", neg, m, s)
}

// FormatCount writes n with thin spaces between thousands.
func FormatCount[T int | int64](n T) string {
	s := fmt.Sprint(n)
	neg := ""
	if strings.HasPrefix(s, "-") {
		neg, s = "−", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return neg + s
}

// FormatSize writes a number of bytes: "850 B", "12.4 kB", "3.1 MB".
func FormatSize(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// digits3 writes v with three significant digits and no trailing zeros.
func digits3(v float64) string {
	prec := 0
	switch {
	case v < 10:
		prec = 2
	case v < 100:
		prec = 1
	}
	s := fmt.Sprintf("%.*f", prec, v)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
