package cqltap

import (
	"encoding/binary"
	"hash/maphash"
	"regexp"
	"slices"
	"strings"

	"fencepost/harness/record/history"
)

// statement is what a request asks for.
type statement struct {
	text          *text
	level, serial uint16
	values        []uint64 // of a write, if they are kept; never nil then
	first         []byte   // the first value; it lies in the frame
}

// text is a statement's; two that differ in their literals only are one.
type text struct {
	number uint32
	cql    string
	writes bool
	reads  string // the table of a SELECT, "" for all others
}

// texts knows all texts, and what stands for them.
type texts struct {
	by      map[string]*text // as sent, or blanked
	ids     map[string]*text // by the id of what was prepared
	batches map[string]*text // by the numbers of their statements
	more    *text            // stands for all that are too many
	scratch []byte
	numbers uint32
}

// maxTexts bounds the texts that are kept.
const maxTexts = 4 * maxShapes

func newTexts() texts {
	return texts{by: map[string]*text{}, ids: map[string]*text{}, batches: map[string]*text{}, more: &text{cql: "…", writes: true}}
}

// literals are what a program may write into a statement's text as a value. Names in
// double quotes are found to be left alone.
var literals = regexp.MustCompile(`"(?:[^"]|"")*"|'(?:[^']|'')*'|(?s:\$\$.*?\$\$)` +
	`|\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b|\b0[xX][0-9A-Fa-f]*\b|\b[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\b`)

// blank puts a marker in place of each literal.
func blank(cql string) string {
	return literals.ReplaceAllStringFunc(cql, func(s string) string {
		if s[0] == '"' {
			return s
		}
		return "?"
	})
}

// first is the statement's first word, in upper case.
func first(cql string) string {
	cql = strings.TrimLeft(cql, " \t\r\n")
	if i := strings.IndexAny(cql, " \t\r\n("); i >= 0 {
		cql = cql[:i]
	}
	return strings.ToUpper(cql)
}

// changing are the verbs of rows; the literals of all others are what they say.
func changing(verb string) bool {
	return slices.Contains([]string{"INSERT", "UPDATE", "DELETE", "BEGIN"}, verb)
}

// get is the text of a statement. Of one without bound values the literals are taken for
// values, in whose place a program has written them.
func (x *texts) get(cql []byte, bound bool) *text {
	if t := x.by[string(cql)]; t != nil {
		return t
	}
	if len(x.by) >= maxTexts {
		return x.more
	}
	full := string(cql)
	verb := first(full)
	key := full
	if !bound && (changing(verb) || verb == "SELECT") {
		key = blank(full)
	}
	t := x.by[key]
	if t == nil {
		t = x.add(full, changing(verb))
		x.by[key] = t
	}
	return t
}

func (x *texts) add(cql string, writes bool) *text {
	x.numbers++
	return &text{x.numbers, cql, writes, tableOf(cql)}
}

// from finds the table of a SELECT, without its keyspace.
var from = regexp.MustCompile(`(?is)^\s*SELECT\s.*?\sFROM\s+(?:(?:\w+|"(?:[^"]|"")+")\s*\.\s*)?(\w+|"(?:[^"]|"")+")`)

// tableOf is the table that a SELECT reads, as CQL compares names; "" for other statements.
func tableOf(cql string) string {
	m := from.FindStringSubmatch(cql)
	switch {
	case m == nil:
		return ""
	case m[1][0] == '"':
		return strings.ReplaceAll(m[1][1:len(m[1])-1], `""`, `"`)
	}
	return strings.ToLower(m[1])
}

var batchKinds = []string{"BEGIN BATCH ", "BEGIN UNLOGGED BATCH ", "BEGIN COUNTER BATCH "}

// batch is the text of a batch: each of its statements once.
func (x *texts) batch(kind byte, parts []*text) *text {
	key := append(x.scratch[:0], kind)
	for _, p := range parts {
		key = binary.BigEndian.AppendUint32(key, p.number)
	}
	x.scratch = key
	if t := x.batches[string(key)]; t != nil {
		return t
	}
	if len(x.batches) >= maxTexts {
		return x.more
	}
	var b strings.Builder
	b.WriteString(batchKinds[min(int(kind), len(batchKinds)-1)])
	for _, p := range parts {
		b.WriteString(p.cql)
		b.WriteString("; ")
	}
	b.WriteString("APPLY BATCH")
	t := x.add(b.String(), true)
	x.batches[string(key)] = t
	return t
}

// learn files what an id stands for.
func (t *Tap) learn(id []byte, cql string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.texts.ids[string(id)] == nil {
		t.texts.ids[string(id)] = t.texts.get([]byte(cql), true)
	}
}

// statement reads a QUERY, EXECUTE or BATCH; found is false if it names what no link saw
// prepared.
func (t *Tap) statement(h head, in *body) (s statement, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	values := &values{keep: t.opt.Writes}
	switch h.op {
	case OpQuery:
		cql := in.longText()
		s.level, s.serial = in.parameters(h, values)
		if in.err == nil {
			s.text = t.texts.get(cql, values.bound > 0)
			values.literals(cql)
		}
	case OpExecute:
		s.text = t.texts.ids[string(in.text())]
		if h.version >= 5 {
			in.text() // the id of its result's metadata
		}
		s.level, s.serial = in.parameters(h, values)
	case OpBatch:
		return t.batch(h, in, values)
	}
	if s.text == nil || in.err != nil {
		return s, false
	}
	s.values, s.first = values.of(s.text), values.first
	return s, true
}

func (t *Tap) batch(h head, in *body, values *values) (s statement, found bool) {
	kind := in.byte()
	var parts []*text
	found = true
	for n := in.short(); n > 0 && in.err == nil; n-- {
		var p *text
		if in.byte() == 0 {
			cql := in.longText()
			p = t.texts.get(cql, len(in.b) > 1 && binary.BigEndian.Uint16(in.b) > 0)
			values.literals(cql)
		} else {
			p = t.texts.ids[string(in.text())]
		}
		if p == nil {
			found = false
		} else if !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
		for v := in.short(); v > 0 && in.err == nil; v-- {
			values.bind(in.value())
		}
	}
	s.level, s.serial = in.short(), noSerial
	if in.flags(h)&paramSerial != 0 {
		s.serial = in.short()
	}
	if !found || in.err != nil {
		return s, false
	}
	s.text = t.texts.batch(kind, parts)
	s.values = values.of(s.text)
	return s, true
}

// Flags of a request's parameters.
const (
	paramValues = 0x01
	paramPage   = 0x04
	paramPaging = 0x08
	paramSerial = 0x10
	paramNamed  = 0x40
)

func (r *body) flags(h head) int {
	if h.version >= 5 {
		return r.int()
	}
	return int(r.byte())
}

// parameters reads those of a QUERY or EXECUTE up to the serial consistency.
func (r *body) parameters(h head, values *values) (level, serial uint16) {
	level, serial = r.short(), noSerial
	flags := r.flags(h)
	if flags&paramValues != 0 {
		for n := r.short(); n > 0 && r.err == nil; n-- {
			if flags&paramNamed != 0 {
				r.text()
			}
			values.bind(r.value())
		}
	}
	if flags&paramPage != 0 {
		r.int()
	}
	if flags&paramPaging != 0 {
		r.value()
	}
	if flags&paramSerial != 0 {
		serial = r.short()
	}
	return level, serial
}

// write is one request that changes rows.
type write struct {
	at     int64    // as history.Now, when its last byte had come
	values []uint64 // digests of what it carried
}

// writes are kept by where they came from, in order.
type writes map[string][]write

func (w writes) add(from string, values []uint64) {
	w[from] = append(w[from], write{history.Now(), values})
}

// seed makes digests comparable within the process.
var seed = maphash.MakeSeed()

// values are those of one request, bound or written into its text.
type values struct {
	keep  bool
	bound int
	all   []uint64
	first []byte
}

func (v *values) bind(b []byte) {
	if v.bound++; v.bound == 1 {
		v.first = b
	}
	v.add(b)
}

func (v *values) add(b []byte) {
	if v.keep && b != nil {
		v.all = append(v.all, maphash.Bytes(seed, b))
	}
}

// literals adds what is written into a statement's text.
func (v *values) literals(cql []byte) {
	if v.bound == 0 {
		v.first = unquoted(literals.Find(cql))
	}
	if !v.keep {
		return
	}
	for _, b := range literals.FindAll(cql, -1) {
		v.add(unquoted(b))
	}
}

// unquoted is a literal without its quotes.
func unquoted(b []byte) []byte {
	if len(b) > 1 && b[0] == '\'' {
		return b[1 : len(b)-1]
	}
	return b
}

func (v *values) of(t *text) []uint64 {
	if !v.keep || !t.writes {
		return nil
	}
	if v.all == nil {
		return []uint64{}
	}
	return v.all
}

// FirstWrite is when a side that opens connections first sent a write that carries one of the
// encodings of each of the values, as history.Now; 0: never, or Options.Writes is off. A write
// before since does not count.
func (t *Tap) FirstWrite(from string, since int64, values ...[][]byte) int64 {
	want := make([][]uint64, len(values))
	for i, v := range values {
		for _, b := range v {
			want[i] = append(want[i], maphash.Bytes(seed, b))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.writes[from] {
		if w.at >= since && w.carries(want) {
			return w.at
		}
	}
	return 0
}

func (w write) carries(want [][]uint64) bool {
	for _, any := range want {
		if !slices.ContainsFunc(any, func(d uint64) bool { return slices.Contains(w.values, d) }) {
			return false
		}
	}
	return true
}
