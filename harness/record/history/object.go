package history

import (
	"fmt"
	"math/bits"
	"reflect"
	"strings"
)

// object is a kind of JSON object of the format. Its members are the fields of a struct: their
// tags say their names and values (see valueOf), and the comments above them what they mean.
// Reader, schema and docs are made from it.
type object struct {
	of          any // the struct
	name, means string
	// shapes are what it must and may have, "" if that is the members that the encoder always
	// writes, and all others. If by is a member, that depends on its value: then kinds say it.
	shapes string
	by     string
	kinds  []objectKind

	members []member
	at      map[string]int // members by name
	always  []shape
	byKind  map[string][]shape
}

// objectKind is the shapes of objects whose by has one of the values.
type objectKind struct{ values, shapes string }

// member is a field of an object.
type member struct {
	name string
	path []int // of the struct's field; one of Details is behind a pointer
	value
}

// in is the member of an object.
func (m *member) in(v reflect.Value) reflect.Value {
	if len(m.path) > 1 {
		p := v.Field(m.path[0])
		if p.IsNil() {
			p.Set(reflect.New(p.Type().Elem()))
		}
		v = p.Elem()
	}
	return v.Field(m.path[len(m.path)-1])
}

// mask is a set of an object's members.
type mask uint64

// shape is what an object must have, and all that it may have.
type shape struct {
	text      string
	need, all mask
	results   []string // of the member result, if it has one
}

// compile makes the members and shapes of objects, which may be parts of each other.
func compile(objects ...*object) []*object {
	byType := make(map[reflect.Type]*object, len(objects))
	for _, o := range objects {
		byType[reflect.TypeOf(o.of)] = o
	}
	for _, o := range objects {
		o.compile(byType)
	}
	return objects
}

func (o *object) compile(objects map[reflect.Type]*object) {
	o.at, o.byKind = map[string]int{}, map[string][]shape{}
	var must, may []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(o.of)) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous || name == "-":
			continue
		case options == "":
			must = append(must, name)
		default:
			may = append(may, name)
		}
		o.at[name] = len(o.members)
		o.members = append(o.members, member{name, f.Index, valueOf(name, f, objects)})
	}
	switch {
	case o.by != "":
		o.shapes = o.by + " [*]"
	case o.shapes == "":
		o.shapes = strings.Join(must, " ") + " [" + strings.Join(may, " ") + "]"
	}
	o.always = o.parse("", o.shapes)
	for _, k := range o.kinds {
		for _, value := range strings.Fields(k.values) {
			o.byKind[value] = o.parse(o.by+" ", k.shapes)
		}
	}
}

// parse reads shapes with "or" between them, each of which begins with the fields of first.
// A shape is names of members, those in brackets optional, * for all others, result with
// the values that it may have: "key result=applied|inbox [sends]".
func (o *object) parse(first, text string) (out []shape) {
	for _, s := range strings.Split(text, " or ") {
		out = append(out, o.parseOne(first+s))
	}
	return out
}

func (o *object) parseOne(text string) shape {
	s := shape{text: text}
	optional := false
	for _, word := range strings.Fields(text) {
		optional = optional || strings.HasPrefix(word, "[")
		name, values, listed := strings.Cut(strings.Trim(word, "[]"), "=")
		if name == "*" {
			s.all = 1<<len(o.members) - 1
		}
		if name == "*" || name == "" {
			continue
		}
		i, known := o.at[name]
		if !known {
			panic(fmt.Sprintf("history: %s has no field %q", o.name, name)) // of a table in this package
		}
		if listed {
			s.results = strings.Split(values, "|")
		}
		s.all |= 1 << i
		if !optional {
			s.need |= 1 << i
		}
	}
	return s
}

// decode reads an object into a struct: which members it has, and which of them say something.
func (o *object) decode(d *lineDecoder, v reflect.Value) (has, said mask, err error) {
	if err := d.open('{'); err != nil {
		return 0, 0, err
	}
	for {
		name, more, err := d.name()
		if err != nil || !more {
			return has, said, err
		}
		i, known := o.at[string(name)]
		if !known {
			return 0, 0, fmt.Errorf("unknown field %q", name)
		}
		if has&(1<<i) != 0 {
			return 0, 0, fmt.Errorf("field %s is there twice", name)
		}
		has |= 1 << i
		m := &o.members[i]
		ok, err := m.read(d, m.in(v))
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", m.name, err)
		}
		if ok || m.nonzero == "" {
			said |= 1 << i
		}
	}
}

// read is decode for an object whose shape is known by itself.
func (o *object) read(d *lineDecoder, v reflect.Value) (said bool, err error) {
	has, some, err := o.decode(d, v)
	if err != nil {
		return false, err
	}
	if o.by == "" || some&(1<<o.at[o.by]) == 0 {
		_, err := o.fits(o.always, has, some)
		return true, err
	}
	kind := o.members[o.at[o.by]].in(v).String()
	if _, err := o.fits(o.byKind[kind], has, some); err != nil {
		return false, fmt.Errorf("%s %w", kind, err)
	}
	return true, nil
}

// fits finds the shape that an object has, or says what is wrong by the nearest.
func (o *object) fits(shapes []shape, has, said mask) (*shape, error) {
	nearest, far := &shapes[0], 2*len(o.members)
	for i := range shapes {
		s := &shapes[i]
		if has&^s.all|s.need&^said == 0 {
			return s, nil
		}
		if d := bits.OnesCount64(uint64(has&^s.all)) + bits.OnesCount64(uint64(s.need&^said)); d < far {
			nearest, far = s, d
		}
	}
	extra, missing := has&^nearest.all, nearest.need&^said
	switch {
	case extra != 0:
		return nil, fmt.Errorf("has %s: it may have %s", o.names(extra), nearest.text)
	case missing&has != 0:
		return nil, fmt.Errorf("has no %s: it is zero or empty", o.names(missing&has))
	}
	return nil, fmt.Errorf("has no %s", o.names(missing))
}

func (o *object) names(m mask) string {
	var out []string
	for ; m != 0; m &= m - 1 {
		out = append(out, o.members[bits.TrailingZeros64(uint64(m))].name)
	}
	return strings.Join(out, ", ")
}

// lifeRest is what a life may have however it ended.
const lifeRest = "pid overdue took_ms bound_ms log log_file file bytes sha256]"

// objects are all kinds of objects: a line of a file is one of the first two, the others are
// within events, in the order in which the docs have them. Of events, forms say more.
var objects = compile(
	&object{of: Event{}, name: "event", means: "a line of a history file, but for the first"},
	&object{of: Header{}, name: "header", means: "the first line of a history file"},
	&object{of: Version{}, name: "version", means: "the whole version of a lock's row, or the stamp of a shard"},
	&object{of: Change{}, name: "change", means: "what a batch, or an update, does to one job, to one schedule, or to the shard",
		by: "do", kinds: []objectKind{
			{"enqueue", "job [due_ms schedule nominal_ms trigger after]"},
			{"claim retry", "job run attempt [due_ms]"},
			// Who forgets attempts rescues or abandons a run without: P2's finding, not the reader's.
			{"rescue", "job run [attempt due_ms]"},
			{"complete", "job run attempt"},
			{"abandon", "job run [attempt]"},
			{"dlq cancel", "job [run attempt]"},
			{"redrive hasten", "job [run attempt due_ms]"},
			{"sweep", "job"},
			{"put", "schedule last_ms [missed skipped waiting form]"},
			{"disable enable", "schedule last_ms [missed skipped waiting]"},
			{"remove", "schedule"},
			{"fire", "schedule last_ms [missed skipped waiting]"},
			{"over", "schedule nominal_ms last_ms [trigger missed skipped waiting ended_ms]"},
			{"trigger", "schedule nominal_ms last_ms trigger [missed skipped waiting]"},
			{"pause resume", ""},
		}},
	&object{of: Job{}, name: "job", means: "what is enqueued"},
	&object{of: Retry{}, name: "retry", means: "how long a job waits after a failed run"},
	&object{of: Order{}, name: "order", means: "what a customer asks for"},
	&object{of: Schedule{}, name: "schedule", means: "what is asked for of a recurring schedule",
		by: "do", kinds: []objectKind{
			{"put", "queue shard job [kind at_ms until_ms cron zone overlap misfire grace_ms form every_ms window_ms]"},
			{"disable enable remove", "queue shard"},
			{"trigger", "queue shard trigger"},
		}},
	&object{of: Command{}, name: "command", means: "what is asked for of a job, a shard or a queue",
		by: "do", kinds: []objectKind{
			{"cancel redrive hasten run", "queue shard"},
			{"pause resume", "queue shard [whole]"},
			{"redrive-dead", "queue"},
		}},
	&object{of: Answered{}, name: "answered", means: "the answer for one job of a command on many"},
	&object{of: Arrivals{}, name: "arrivals", means: "how many jobs a worker's life was to enqueue so far, and how many of them it left out"},
	&object{of: JobRow{}, name: "job_row", means: "a row of a shard, or of a job with a lock of its own, when all processes have ended",
		by: "kind", kinds: []objectKind{
			{"job", "state [attempt run due_ms ended_ms]"},
			{"pending", "[attempt run due_ms]"},
			{"running", "[attempt run due_ms]"},
			{"dlq", "[attempt run due_ms]"},
			{"ended", ""},
			{"inbox", "[due_ms]"},
		}},
	&object{of: Book{}, name: "book", means: "a row of the shop's tables when all processes have ended",
		by: "table", kinds: []objectKind{
			{"stock", "item [quantity version]"},
			{"move", "item version [delta quantity order]"},
			{"order", "order item quantity cents state"},
			{"payment", "order cents token"},
			{"shipment", "order"},
			{"end", ""},
		}},
	&object{of: LedgerEntry{}, name: "ledger", means: "a decision of the sink, in its own order",
		by: "kind", kinds: []objectKind{
			{"raise seal", "seq issuer token [at]"},
			{"accept", "seq issuer token effect_key value [at]"},
		}},
	&object{of: Fault{}, name: "fault", means: "an injection, its end, or the proof that it took effect",
		by: "action", kinds: []objectKind{
			{"inject heal", "id name [targets trigger delay_ms times]"},
			{"evidence", "id name [targets trigger delay_ms times proven text]"},
		}},
	&object{of: Clock{}, name: "clock", means: "the state of a worker's clocks from this instant on; nothing: they are right"},
	&object{of: ProcessLife{}, name: "life", means: "how a life of a process ended, or that it was still there when the run was over",
		shapes: "kind name [running " + lifeRest + " or kind name [code " + lifeRest + " or kind name [signal " + lifeRest +
			" or kind name asked by [running " + lifeRest + " or kind name asked by [code " + lifeRest +
			" or kind name asked by [signal " + lifeRest},
	&object{of: Host{}, name: "machine",
		means: "how busy the machine was in the phase that ends, by the harness's own timer: how late it was, weighed by time"},
	&object{of: Usage{}, name: "usage", means: "what a process takes of the machine"},
	&object{of: Progress{}, name: "progress",
		means: "what must get done while a fault is in force, by those who can reach a quorum then (P11)"},
	&object{of: Asked{}, name: "asked", means: "what a worker's link carried to the sink"},
	&object{of: Hit{}, name: "hit", means: "a client at a point that a fault waited for, and the request that the point is before"},
	&object{of: Armed{}, name: "armed", means: "a point that a fault waited for"},
	&object{of: Statement{}, name: "statement", means: "the shape of a database statement"},
	&object{of: SerialRead{}, name: "serial_read", means: "a read in consensus that a link carried"},
	&object{of: Expect{}, name: "expect", means: "what the run must contain to count as a test"},
	&object{of: Agreement{}, name: "agreement", means: "in which of several data centres the system is to agree, and how (P13)"},
	&object{of: Tables{}, name: "tables", means: "whose tables the statements on the links are about (P13)"},
	&object{of: Success{}, name: "success",
		means:  "an expectation for the releases (or completed jobs) of some workers in a phase, or while a fault is in force",
		shapes: "phase want [workers] or phase want [group] or fault want [workers] or fault want [group]"},
	&object{of: Threshold{}, name: "threshold", means: "a bound on a number of the run",
		shapes: "latency quantile phase max_ms or latency quantile phase times_before or recovery max_ms or lateness max_ms or overload max_ms or overload=goodput least or growth by [per_hour]"},
)

var eventObject, headerObject = objects[0], objects[1]
