package cqltap

import (
	"errors"
	"fmt"
	"sync"

	"fencepost/harness/env/link"
)

// conn is one connection.
type conn struct {
	tap  *Tap
	link *account

	mu      sync.Mutex
	halves  [2]half // by link.Dir
	pending map[int16]request
	begun   bool  // the client has said something
	started bool  // its node has accepted the protocol version
	dead    error // why it is not read any more
	packed  bool  // STARTUP asked for compression
}

// half is one direction: since version 5 its frames are in segments, once the connection
// is set up.
type half struct {
	frames
	segments *segments // nil: bare frames
}

// request is what an answer will be of.
type request struct {
	op       Opcode
	prepared string // PREPARE: the statement
	unknown  bool   // EXECUTE or BATCH: of something that no link saw prepared
}

// Said implements link.Stream.
func (c *conn) Said(d link.Dir, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead != nil {
		return
	}
	h := &c.halves[d]
	frame := c.request
	if d == link.Down {
		frame = c.answer
	}
	add := func(b []byte) error { return h.add(b, c.wanted, frame) }
	var err error
	switch {
	case d == link.Up && !c.begun && b[0] == tlsHandshake:
		err = errTLS
	case h.segments != nil:
		err = h.segments.add(b, add)
	default:
		err = add(b)
	}
	c.begun = c.begun || d == link.Up
	if err != nil {
		c.lost(err)
	}
}

// tlsHandshake is the first byte of a connection with TLS.
const tlsHandshake = 0x16

// Ended implements link.Stream.
func (c *conn) Ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	// What was executed and never answered may have been executed.
	for _, r := range c.pending {
		if r.unknown {
			c.tap.unread(c.link.link, errUnprepared)
		}
	}
	c.pending = nil
}

// lost ends the reading of a connection. One that was not accepted has sent no statement.
func (c *conn) lost(err error) {
	c.dead = err
	if c.started || errors.Is(err, errForeign) || errors.Is(err, errTLS) {
		c.link.mu.Lock()
		c.link.uncounted = true
		c.link.mu.Unlock()
		c.tap.unread(c.link.link, err)
	}
}

// Reasons for which a connection cannot be read.
var (
	errTLS        = errors.New("it carries TLS")
	errCompressed = errors.New("it is compressed: leave the protocol's compression off")
	errUnprepared = errors.New("a statement was executed that no link saw prepared")
)

// wanted says of which frames the body is looked at.
func (c *conn) wanted(h head) bool {
	switch h.op {
	case OpStartup, OpQuery, OpPrepare, OpExecute, OpBatch:
		return !h.answer
	case OpResult:
		return h.answer && c.pending[h.stream].op == OpPrepare
	}
	return false
}

func (c *conn) request(h head, b []byte) error {
	if h.answer || !c.started && h.op != OpStartup && h.op != OpOptions {
		return errForeign
	}
	r := request{op: h.op}
	switch h.op {
	case OpQuery, OpPrepare, OpExecute, OpBatch:
		var err error
		if r, err = c.statement(h, b); err != nil {
			return err
		}
	case OpStartup:
		c.packed = compressing(b)
	}
	c.pending[h.stream] = r
	c.link.asked(h.op)
	return nil
}

// statement reads a request that carries one.
func (c *conn) statement(h head, b []byte) (request, error) {
	switch {
	case h.flags&flagCompressed != 0:
		return request{}, errCompressed
	case b == nil && h.length > 0:
		return request{}, fmt.Errorf("a request of %d bytes is longer than what is looked at", h.length)
	}
	in := &body{b: b}
	if h.flags&flagPayload != 0 {
		in.payload()
	}
	r := request{op: h.op}
	if h.op == OpPrepare {
		r.prepared = string(in.longText())
		return r, in.err
	}
	s, found := c.tap.statement(h, in)
	if in.err != nil {
		return r, in.err
	}
	if r.unknown = !found; found {
		c.tap.see(c.link, s)
	}
	return r, nil
}

func (c *conn) answer(h head, b []byte) error {
	if !h.answer {
		return errForeign
	}
	if h.stream < 0 {
		return nil // an event
	}
	r, asked := c.pending[h.stream]
	if !asked {
		return nil // the client gave its stream to another request meanwhile
	}
	delete(c.pending, h.stream)
	c.link.answered(r.op)
	switch {
	case r.op == OpStartup && (h.op == OpReady || h.op == OpAuthenticate):
		return c.accept(h)
	case r.op == OpPrepare && h.op == OpResult:
		return c.prepared(h, b, r.prepared)
	case r.unknown && h.op == OpResult:
		c.tap.unread(c.link.link, errUnprepared)
	}
	return nil
}

// accept goes on as the two sides have agreed. The client says nothing until it knows, so
// both directions are between two frames.
func (c *conn) accept(h head) error {
	c.started = true
	switch {
	case h.version < 3 || h.version > 5:
		return fmt.Errorf("it speaks version %d of the CQL native protocol; versions 3 to 5 are read", h.version)
	case h.version < 5:
		return nil
	case c.packed:
		return errCompressed
	}
	for d := range c.halves {
		c.halves[d].segments = &segments{}
	}
	return nil
}

// prepared learns an id.
func (c *conn) prepared(h head, b []byte, cql string) error {
	if h.flags&flagCompressed != 0 {
		return errCompressed
	}
	in := &body{b: b}
	if h.flags&flagTracing != 0 {
		in.take(16)
	}
	if h.flags&flagWarning != 0 {
		for n := in.short(); n > 0; n-- {
			in.text()
		}
	}
	if h.flags&flagPayload != 0 {
		in.payload()
	}
	const kindPrepared = 4
	if kind := in.int(); kind == kindPrepared && in.err == nil {
		c.tap.learn(in.text(), cql)
	}
	return in.err
}

// compressing says whether a STARTUP asks for it.
func compressing(b []byte) bool {
	in := &body{b: b}
	asks := false
	for n := in.short(); n > 0 && in.err == nil; n-- {
		name, value := in.text(), in.text()
		asks = asks || string(name) == "COMPRESSION" && len(value) > 0
	}
	return asks
}
