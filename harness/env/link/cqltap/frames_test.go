package cqltap

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"fencepost/harness/env/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire writes the protocol as a client and a node do.
type wire struct {
	version byte
	b       []byte
}

func (w *wire) short(n int) *wire  { w.b = binary.BigEndian.AppendUint16(w.b, uint16(n)); return w }
func (w *wire) int(n int) *wire    { w.b = binary.BigEndian.AppendUint32(w.b, uint32(n)); return w }
func (w *wire) byte(n byte) *wire  { w.b = append(w.b, n); return w }
func (w *wire) raw(b []byte) *wire { w.b = append(w.b, b...); return w }
func (w *wire) text(s string) *wire {
	return w.short(len(s)).raw([]byte(s))
}
func (w *wire) long(s string) *wire { return w.int(len(s)).raw([]byte(s)) }

// flags are one byte, four since version 5.
func (w *wire) flags(n int) *wire {
	if w.version >= 5 {
		return w.int(n)
	}
	return w.byte(byte(n))
}

// frame is the body with its header.
func (w *wire) frame(op Opcode, stream int16, flags byte, answer bool) []byte {
	v := w.version
	if answer {
		v |= 0x80
	}
	head := []byte{v, flags, byte(uint16(stream) >> 8), byte(stream), byte(op)}
	return append(binary.BigEndian.AppendUint32(head, uint32(len(w.b))), w.b...)
}

func v(version byte) *wire { return &wire{version: version} }

// parameters are those of a query: consistency, two values, a page size, perhaps a serial
// consistency (negative: none) and a timestamp.
func (w *wire) parameters(consistency, serial int, values ...string) *wire {
	flags := paramPage | paramPaging | 0x20
	if len(values) > 0 {
		flags |= paramValues
	}
	if serial >= 0 {
		flags |= paramSerial
	}
	w.short(consistency).flags(flags)
	if len(values) > 0 {
		w.short(len(values))
		for _, s := range values {
			w.long(s)
		}
	}
	w.int(5000).long("page")
	if serial >= 0 {
		w.short(serial)
	}
	return w.raw(make([]byte, 8))
}

func startup(version byte) []byte {
	return v(version).short(1).text("CQL_VERSION").text("3.0.0").frame(OpStartup, 0, 0, false)
}

func ready(version byte) []byte { return v(version).frame(OpReady, 0, 0, true) }

func query(version byte, stream int16, cql string, consistency, serial int, values ...string) []byte {
	return v(version).long(cql).parameters(consistency, serial, values...).frame(OpQuery, stream, 0, false)
}

func prepare(version byte, stream int16, cql string) []byte {
	w := v(version).long(cql)
	if version >= 5 {
		w.int(0)
	}
	return w.frame(OpPrepare, stream, 0, false)
}

func prepared(version byte, stream int16, id string) []byte {
	// With a warning and a tracing id before it, as a node may send them.
	return v(version).raw(make([]byte, 16)).short(1).text("slow").int(4).text(id).int(0).int(0).frame(OpResult, stream, flagTracing|flagWarning, true)
}

func execute(version byte, stream int16, id string, consistency, serial int, values ...string) []byte {
	w := v(version).text(id)
	if version >= 5 {
		w.text("metadata")
	}
	return w.parameters(consistency, serial, values...).frame(OpExecute, stream, 0, false)
}

// batch has prepared statements (ids that begin with #) and texts.
func batch(version byte, stream int16, consistency, serial int, parts ...string) []byte {
	w := v(version).byte(1).short(len(parts))
	for _, p := range parts {
		if id, ok := strings.CutPrefix(p, "#"); ok {
			w.byte(1).text(id)
		} else {
			w.byte(0).long(p)
		}
		w.short(2).long("value").int(-1)
	}
	w.short(consistency)
	if serial < 0 {
		return w.flags(0).frame(OpBatch, stream, 0, false)
	}
	return w.flags(paramSerial).short(serial).frame(OpBatch, stream, 0, false)
}

func void(version byte, stream int16) []byte {
	return v(version).int(1).frame(OpResult, stream, 0, true)
}

func failed(version byte, stream int16) []byte {
	return v(version).int(0x2500).text("unprepared").text("id").frame(OpError, stream, 0, true)
}

func heartbeat(version byte, stream int16) []byte {
	return v(version).frame(OpOptions, stream, 0, false)
}

// said is what a side says.
type said struct {
	d link.Dir
	b []byte
}

func up(b []byte) said   { return said{link.Up, b} }
func down(b []byte) said { return said{link.Down, b} }

// heard is what a tap tells.
type heard struct {
	mu     sync.Mutex
	shapes []Shape
	from   []string
	unread []string
	serial []SerialRead
}

func (h *heard) options() Options {
	return Options{
		Shape: func(from string, s Shape) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.shapes, h.from = append(h.shapes, s), append(h.from, from)
		},
		Serial: func(_ string, r SerialRead) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.serial = append(h.serial, r)
		},
		Unread: func(_ *link.Link, reason error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.unread = append(h.unread, reason.Error())
		},
	}
}

// nowhere is an address that nobody is asked at.
const nowhere = "127.0.0.1:9"

// talk says all of it on one connection, in pieces of the size (0: as it is).
func talk(l *link.Link, tap *Tap, piece int, all ...said) {
	s := tap.Open(l)
	for _, x := range all {
		for b := x.b; len(b) > 0; {
			n := len(b)
			if piece > 0 {
				n = min(n, piece)
			}
			s.Said(x.d, b[:n:n])
			b = b[n:]
		}
	}
	s.Ended()
}

// node answers over TCP as one of version 4 does: it takes every statement, and prepares each
// under the id "u".
func node(t testing.TB) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				answerAll(c)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

func answerAll(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		b := make([]byte, headSize)
		if _, err := io.ReadFull(in, b); err != nil {
			return
		}
		h, err := parseHead(b)
		if err != nil {
			return
		}
		if _, err := in.Discard(h.length); err != nil {
			return
		}
		answer := void(4, h.stream)
		switch h.op {
		case OpStartup:
			answer = ready(4)
		case OpPrepare:
			answer = prepared(4, h.stream, "u")
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}
