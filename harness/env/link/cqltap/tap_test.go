package cqltap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/env/link/linktest"
)

const (
	insert = "INSERT INTO locks (name, fence) VALUES (?, ?) IF NOT EXISTS"
	update = "UPDATE locks SET fence = ? WHERE name = ? IF fence = ?"
	look   = "SELECT fence FROM locks WHERE name = ?"
)

// session is a client's whole connection: it sets up, prepares, executes, is refused once.
func session(version byte) []said {
	return []said{
		up(heartbeat(version, 0)), down(v(version).frame(OpSupported, 0, 0, true)),
		up(startup(version)), down(ready(version)),
		up(prepare(version, 1, update)), down(prepared(version, 1, "id-update")),
		up(prepare(version, 1, insert)), down(prepared(version, 1, "id-insert")),
		up(query(version, 2, look, 0x06, 0x08, "lock-1")), down(void(version, 2)),
		up(query(version, 2, look, 0x08, -1, "lock-1")), down(void(version, 2)),
		up(execute(version, 3, "id-update", 0x04, 0x08, "7", "lock-1", "6")), down(void(version, 3)),
		up(execute(version, 3, "id-update", 0x04, 0x08, "8", "lock-1", "7")), down(void(version, 3)),
		up(execute(version, 3, "id-update", 0x01, 0x09)), down(void(version, 3)),
		up(batch(version, 4, 0x04, 0x08, "#id-update", "#id-insert", "#id-update", look)), down(void(version, 4)),
		up(batch(version, 4, 0x04, -1, "#id-insert")), down(void(version, 4)),
		down(v(version).text("STATUS_CHANGE").frame(OpEvent, -1, 0, true)),
		up(heartbeat(version, 5)),
	}
}

// seen are the shapes of a session.
var seen = []Shape{
	{CQL: look, Consistency: "LOCAL_QUORUM", SerialConsistency: "SERIAL"},
	{CQL: look, Consistency: "SERIAL", SerialConsistency: ""},
	{CQL: update, Consistency: "QUORUM", SerialConsistency: "SERIAL"},
	{CQL: update, Consistency: "ONE", SerialConsistency: "LOCAL_SERIAL"},
	{CQL: "BEGIN UNLOGGED BATCH " + update + "; " + insert + "; " + look + "; APPLY BATCH", Consistency: "QUORUM", SerialConsistency: "SERIAL"},
	{CQL: "BEGIN UNLOGGED BATCH " + insert + "; APPLY BATCH", Consistency: "QUORUM", SerialConsistency: ""},
}

// segmented puts what comes after the connection is set up into segments of version 5.
func segmented(all []said, size int) []said {
	out := slices.Clone(all)
	for i, x := range out {
		if i < 4 {
			continue
		}
		var b []byte
		for payload := x.b; len(payload) > 0; {
			n := min(size, len(payload))
			head := []byte{byte(n), byte(n >> 8), byte(n>>16) | 0x02}
			sum := crc24(head)
			b = append(append(b, head...), byte(sum), byte(sum>>8), byte(sum>>16))
			b = append(b, payload[:n]...)
			b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(payload[:n]))
			payload = payload[n:]
		}
		out[i].b = b
	}
	return out
}

// Whatever the version, and however the bytes are cut into pieces, the same is seen.
func TestShapes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		say  []said
	}{
		{"version 3", session(3)}, {"version 4", session(4)},
		{"version 5", segmented(session(5), 1<<16)}, {"version 5, torn segments", segmented(session(5), 7)},
	} {
		for _, piece := range []int{0, 1, 2, 8, 9, 10, 64} {
			t.Run(fmt.Sprintf("%s/%d", c.name, piece), func(t *testing.T) {
				t.Parallel()
				h := &heard{}
				tap := New(h.options())
				l := linktest.Open(t, "n1", nowhere, tap)
				talk(l, tap, piece, c.say...)
				if !slices.Equal(h.shapes, seen) || len(h.unread) > 0 {
					t.Errorf("got %q\nwant %q\nunread %q", h.shapes, seen, h.unread)
				}
				n := tap.Counts(l)
				if n.Asked() != 7 || n.Answered() != 7 || n.Requests[OpOptions] != 2 || n.Answers[OpOptions] != 1 || n.Requests[OpPrepare] != 2 {
					t.Errorf("%+v", n)
				}
				talk(l, tap, piece, c.say...)
				if each := (SerialRead{"locks", "lock-1"}); !slices.Equal(h.serial, []SerialRead{each, each}) {
					t.Errorf("reads in consensus: %+v", h.serial)
				}
				if len(h.shapes) != len(seen) {
					t.Errorf("told again: %q", h.shapes[len(seen):])
				}
				if twice := tap.Counts(l); twice.Asked() != 14 || twice.Answered() != 14 || twice.Requests[OpOptions] != 4 {
					t.Errorf("told again: %+v", twice)
				}
			})
		}
	}
}

// A statement is known by its id on every connection, and its shape is told once for each
// origin.
func TestOtherConnections(t *testing.T) {
	t.Parallel()
	h := &heard{}
	tap := New(h.options())
	f := link.NewFabric(link.Options{})
	defer f.Close()
	for _, from := range []string{"w1", "w2"} {
		l, err := f.Add(link.Spec{From: from, To: "n1", Listen: "127.0.0.1:0", Upstream: nowhere})
		if err != nil {
			t.Fatal(err)
		}
		if from == "w1" {
			talk(l, tap, 0, up(startup(4)), down(ready(4)), up(prepare(4, 1, update)), down(prepared(4, 1, "u")))
		}
		talk(l, tap, 0, up(startup(4)), down(ready(4)), up(execute(4, 1, "u", 0x04, 0x08)), down(void(4, 1)))
	}
	if !slices.Equal(h.from, []string{"w1", "w2"}) || len(h.unread) > 0 {
		t.Errorf("from %q, unread %q", h.from, h.unread)
	}
}

// Texts that differ in what is written into them as values are one shape; what they say of
// the table is not a value.
func TestLiterals(t *testing.T) {
	t.Parallel()
	h := &heard{}
	tap := New(h.options())
	say := []said{up(startup(4)), down(ready(4))}
	for _, cql := range []string{
		"UPDATE locks SET a = 'x', n = 1 WHERE k = 0x0a IF id = 5e0c1111-2222-3333-4444-555566667777",
		"UPDATE locks SET a = 'it''s', n = 22.5e3 WHERE k = 0xff IF id = ab0c1111-2222-3333-4444-555566667777",
		`UPDATE locks SET a = $$y$$, n = 3 WHERE k = 0x00 IF id = 5e0c1111-2222-3333-4444-555566667778`,
		`UPDATE "locks1" SET a = ? WHERE k = 1`,
		`UPDATE "locks2" SET a = ? WHERE k = 1`,
		"ALTER TABLE locks WITH default_time_to_live = 0",
		"ALTER TABLE locks WITH default_time_to_live = 60",
	} {
		say = append(say, up(query(4, 1, cql, 4, 8)), down(void(4, 1)))
	}
	talk(linktest.Open(t, "n1", nowhere, tap), tap, 0, say...)
	if len(h.shapes) != 5 || !strings.Contains(h.shapes[0].CQL, "'x'") {
		t.Errorf("%d shapes: %q", len(h.shapes), h.shapes)
	}
}

// A read in consensus is told each time, with table and row, whatever its text looks like; other
// reads and conditional statements are not.
func TestSerialReads(t *testing.T) {
	t.Parallel()
	const serial, localSerial, quorum = 8, 9, 4
	for cql, want := range map[string]SerialRead{
		"SELECT a FROM locks WHERE k = ?":                         {"locks", "bound"},
		"select a,b from Ks . Locks where k=?":                    {"locks", "bound"},
		"\n SELECT max(a)\nFROM\t\"Ks\".\"my \"\"T\" WHERE k = ?": {`my "T`, "bound"},
		"SELECT a FROM locks WHERE k = 'written' AND n = 1":       {"locks", "written"},
		"SELECT a FROM locks":                                     {"locks", ""},
		"SELECT a FROM locks WHERE k = '\x01'":                    {"locks", ""},
		"UPDATE locks SET a = 1 WHERE k = 'x' IF a = 0":           {},
	} {
		h := &heard{}
		tap := New(h.options())
		var bound []string
		if strings.Contains(cql, "?") {
			bound = []string{"bound", "more"}
		}
		var all []SerialRead
		say := []said{up(startup(4)), down(ready(4))}
		for _, level := range []int{serial, quorum, localSerial} {
			say = append(say, up(query(4, 1, cql, level, serial, bound...)), down(void(4, 1)))
			if level != quorum && want.Table != "" {
				all = append(all, want)
			}
		}
		talk(linktest.Open(t, "n1", nowhere, tap), tap, 0, say...)
		if !slices.Equal(h.serial, all) {
			t.Errorf("%s: %+v, want %+v", cql, h.serial, all)
		}
	}
}

// What cannot be read is said, once, with its reason.
func TestUnread(t *testing.T) {
	t.Parallel()
	begun := []said{up(startup(4)), down(ready(4))}
	compressed := query(4, 1, look, 4, -1)
	compressed[1] |= flagCompressed
	lz4 := v(5).short(2).text("CQL_VERSION").text("3.0.0").text("COMPRESSION").text("lz4").frame(OpStartup, 0, 0, false)
	dse := query(0x42, 1, look, 4, -1)
	for _, c := range []struct {
		name, want string // "": nothing is said
		say        []said
	}{
		{"TLS", "TLS", []said{up([]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03})}},
		{"HTTP", "not the CQL", []said{up([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))}},
		{"a statement before it is set up", "not the CQL", []said{up(query(4, 1, look, 4, -1))}},
		{"an answer from the client", "not the CQL", append(slices.Clone(begun), up(void(4, 1)))},
		{"compression", "compressed", append(slices.Clone(begun), up(compressed))},
		{"compression of version 5", "compressed", []said{up(lz4), down(ready(5))}},
		{"no segments", "not those of version 5", []said{up(startup(5)), down(ready(5)), up(query(5, 1, look, 4, -1))}},
		{"another version", "version 66", []said{up(startup(0x42)), down(ready(0x42)), up(dse)}},
		{"another version that is refused", "", []said{up(startup(0x42)), down(failed(4, 0))}},
		{"an id of nobody", "saw prepared", append(slices.Clone(begun), up(execute(4, 1, "?", 4, 8)), down(void(4, 1)))},
		{"an id of nobody, no answer", "saw prepared", append(slices.Clone(begun), up(batch(4, 1, 4, 8, "#?")))},
		{"an id that the node knows no more", "", append(slices.Clone(begun), up(execute(4, 1, "?", 4, 8)), down(failed(4, 1)))},
		{"a torn frame", "", append(slices.Clone(begun), up(query(4, 1, look, 4, -1)[:20]))},
		{"a body that ends too early", "before its fields", append(slices.Clone(begun), up(v(4).long(look).short(4).frame(OpQuery, 1, 0, false)))},
		{"nothing", "", nil},
		{"a login", "", []said{up(startup(4)), down(v(4).text("PasswordAuthenticator").frame(OpAuthenticate, 0, 0, true)), up(v(4).long("secret").frame(OpAuthResponse, 0, 0, false)), down(v(4).int(-1).frame(0x10, 0, 0, true))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &heard{}
			tap := New(h.options())
			l := linktest.Open(t, "n1", nowhere, tap)
			talk(l, tap, 0, c.say...)
			talk(l, tap, 3, c.say...)
			if c.want == "" && len(h.unread) > 0 || c.want != "" && (len(h.unread) != 1 || !strings.Contains(h.unread[0], c.want)) {
				t.Errorf("unread %q, want %q", h.unread, c.want)
			}
		})
	}
}

// More statements than anybody has are not kept, and that is said.
func TestTooMany(t *testing.T) {
	t.Parallel()
	h := &heard{}
	tap := New(h.options())
	say := []said{up(startup(4)), down(ready(4))}
	for i := range maxShapes + 5 {
		say = append(say, up(query(4, 1, fmt.Sprintf("SELECT c%d FROM t", i), 4, -1)), down(void(4, 1)))
	}
	talk(linktest.Open(t, "n1", nowhere, tap), tap, 0, say...)
	if len(h.shapes) != maxShapes || len(h.unread) != 1 {
		t.Errorf("%d shapes, unread %q", len(h.shapes), h.unread)
	}
}

// A write is found by what it carries, bound or written into its text.
func TestFirstWrite(t *testing.T) {
	t.Parallel()
	tap := New(Options{Writes: true})
	l := linktest.Open(t, "n1", nowhere, tap)
	begin := time.Now()
	talk(l, tap, 0, up(startup(4)), down(ready(4)),
		up(query(4, 1, look, 4, -1, "lock-1", "read")), down(void(4, 1)),
		up(query(4, 1, update, 4, 8, "lock-1", "one")), down(void(4, 1)),
		up(query(4, 1, "UPDATE locks SET a = 'two' WHERE k = 'lock-1' IF a = 'one'", 4, 8)), down(void(4, 1)))
	at := func(since int64, words ...string) int64 {
		var all [][][]byte
		for _, w := range words {
			all = append(all, [][]byte{[]byte("another form"), []byte(w)})
		}
		return tap.FirstWrite("w1", since, all...)
	}
	one, two := at(0, "lock-1", "one"), at(0, "lock-1", "two")
	switch {
	case one == 0 || two < one || two-one > int64(time.Since(begin)):
		t.Errorf("one at %d, two at %d", one, two)
	case at(0, "lock-1", "read") != 0:
		t.Error("a read counts as a write")
	case at(one+1, "lock-1", "one") != two:
		t.Errorf("since then %d", at(one+1, "lock-1", "one"))
	case at(0, "lock-2") != 0 || at(two+1, "lock-1") != 0 || tap.FirstWrite("w2", 0) != 0:
		t.Error("found what was not sent")
	}
}

// Over TCP, through a link that is cut in the middle of a frame; the bytes arrive as they were.
func TestThroughALink(t *testing.T) {
	t.Parallel()
	h := &heard{}
	tap := New(h.options())
	l := linktest.Open(t, "n1", node(t), tap)
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, step := range []struct{ say, hear []byte }{
		{startup(4), ready(4)}, {prepare(4, 1, update), prepared(4, 1, "u")}, {execute(4, 2, "u", 4, 8, "1", "l", "0"), void(4, 2)},
	} {
		if _, err := c.Write(step.say); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(step.hear))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, step.hear) {
			t.Fatalf("%x, %v", got, err)
		}
	}
	if _, err := c.Write(execute(4, 2, "u", 4, 8)[:10]); err != nil {
		t.Fatal(err)
	}
	if err := l.SetBoth(t.Context(), link.Mode{Kind: link.Close}); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if want := []Shape{{CQL: update, Consistency: "QUORUM", SerialConsistency: "SERIAL"}}; !reflect.DeepEqual(h.shapes, want) || len(h.unread) > 0 {
		t.Errorf("%q, unread %q", h.shapes, h.unread)
	}
}

// Whatever is said, in whatever pieces, the tap says what it cannot read and goes on.
func FuzzSaid(f *testing.F) {
	for _, version := range []byte{3, 4} {
		var all []byte
		for _, s := range session(version) {
			if s.d == link.Up {
				all = append(all, s.b...)
			}
		}
		f.Add(all, uint64(1))
	}
	f.Add(startup(5), uint64(2))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		tap := New(Options{Writes: true})
		l := linktest.Open(t, "n1", nowhere, tap)
		s := tap.Open(l)
		s.Said(link.Up, startup(4))
		s.Said(link.Down, ready(4))
		rng := rand.New(rand.NewPCG(seed, 0))
		for len(b) > 0 {
			n := 1 + rng.IntN(len(b))
			s.Said(link.Dir(rng.IntN(2)), b[:n])
			b = b[n:]
		}
		s.Ended()
	})
}

// BenchmarkSaid is the price of a request and its answer of the sizes of a lock's.
func BenchmarkSaid(b *testing.B) {
	tap := New(Options{})
	l := linktest.Open(b, "n1", nowhere, tap)
	s := tap.Open(l)
	for _, x := range []said{up(startup(4)), down(ready(4)), up(prepare(4, 1, update)), down(prepared(4, 1, "u"))} {
		s.Said(x.d, x.b)
	}
	for _, c := range []struct {
		name     string
		ask, say []byte
	}{
		{"execute", execute(4, 2, "u", 4, 8, "12345678", "lock-01", "12345678", strings.Repeat("x", 36), "w1.1/c1"), void(4, 2)},
		{"batch of 60", batch(4, 2, 4, 8, slices.Repeat([]string{"#u"}, 60)...), void(4, 2)},
		{"rows of 8 KiB", execute(4, 2, "u", 4, 8, "12345678"), v(4).int(2).raw(make([]byte, 8<<10)).frame(OpResult, 2, 0, true)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Said(link.Up, c.ask)
				s.Said(link.Down, c.say)
			}
		})
	}
}

// BenchmarkRoundTrip is a request of a lock's size and its answer through a link: the price of
// the tap is the difference.
func BenchmarkRoundTrip(b *testing.B) {
	ask := execute(4, 2, "u", 4, 8, "12345678", "lock-01", "12345678", strings.Repeat("x", 36), "w1.1/c1")
	for name, tap := range map[string]link.Tap{"untapped": nil, "tapped": New(Options{}), "tapped, writes kept": New(Options{Writes: true})} {
		b.Run(name, func(b *testing.B) {
			c, err := net.Dial("tcp", linktest.Open(b, "n1", node(b), tap).Addr())
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			trip := func(ask, answer []byte) {
				if _, err := c.Write(ask); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, answer); err != nil {
					b.Fatal(err)
				}
			}
			trip(startup(4), ready(4))
			trip(prepare(4, 1, update), prepared(4, 1, "u"))
			answer := void(4, 2)
			for b.Loop() {
				trip(ask, answer)
			}
		})
	}
}

// One statement to two places is two shapes, and to two nodes of one place it is one.
func TestPlaces(t *testing.T) {
	t.Parallel()
	var h heard
	o := h.options()
	places := map[string]string{"n1": "dc1", "n2": "dc1", "n4": "dc2"}
	o.Place = func(l *link.Link) string { return places[l.To()] }
	tap := New(o)
	f := link.NewFabric(link.Options{})
	t.Cleanup(func() { f.Close() })
	for _, to := range []string{"n1", "n2", "n4"} {
		l, err := f.Add(link.Spec{From: "w1", To: to, Listen: "127.0.0.1:0", Upstream: nowhere})
		if err != nil {
			t.Fatal(err)
		}
		talk(l, tap, 0, session(4)...)
	}
	var got []string
	for _, s := range h.shapes {
		if s.CQL == look && s.Consistency == "SERIAL" {
			got = append(got, s.Place)
		}
	}
	if want := []string{"dc1", "dc2"}; !slices.Equal(got, want) {
		t.Errorf("in %q, want %q", got, want)
	}
}
