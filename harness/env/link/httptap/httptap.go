// Package httptap reads HTTP/1 on links between workers and a service: each request with
// what the service answered, as the bytes were said on the link, whatever a fault made of
// them there. It is the harness's own witness of what a program asked and was told: nothing
// that the program says of itself comes into it.
//
// An exchange is told when its answer is whole, before the client has it, or when its
// connection ends, without an answer. What is not HTTP/1 is told once for each link as
// unread, with the reason.
package httptap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

// Exchange is a request and its answer. Their bodies have been read.
type Exchange struct {
	Request *http.Request
	Body    []byte
	// Sent is when the first byte of the request had come from the client, as history.Now.
	Sent int64
	// Response is nil if no whole answer came.
	Response *http.Response
	Answer   []byte
	// Answered is when the last byte of the answer had come from the service; 0: it did not.
	Answered int64
}

// Options are what a tap tells of. Its functions are called from the links' own goroutines:
// they must be quick and safe for concurrent use. Nil: nobody is told.
type Options struct {
	Exchange func(l *link.Link, e Exchange)
	// Begun is called with a request whose headers have come without the whole of its body.
	Begun func(l *link.Link, req *http.Request)
	// Unread is told once of a link and a reason for which some of what it carries cannot be
	// read.
	Unread func(l *link.Link, reason error)
}

// maxMessage bounds what is kept of a request or an answer.
const maxMessage = 8 << 20

var (
	errLong    = fmt.Errorf("it carries a message of more than %d bytes", maxMessage)
	errForeign = errors.New("its bytes are not HTTP/1")
)

// Tap reads any number of links. Safe for concurrent use.
type Tap struct {
	opt    Options
	unread link.Unread
}

var _ link.Tap = (*Tap)(nil)

// New returns a tap for links' Spec.
func New(o Options) *Tap { return &Tap{opt: o, unread: link.Unread{Tell: o.Unread}} }

// Open implements link.Tap.
func (t *Tap) Open(l *link.Link) link.Stream { return &conn{tap: t, link: l} }

// conn is one connection.
type conn struct {
	tap  *Tap
	link *link.Link

	mu      sync.Mutex
	up      message
	down    message
	waiting []Exchange // requests that are not answered yet, in order
	dead    bool
}

// message is what has come of the next request or answer.
type message struct {
	b     []byte
	since int64 // when its first byte had come
	want  int   // it cannot be whole with fewer bytes
}

func (m *message) add(b []byte) error {
	if len(m.b) == 0 {
		m.since = history.Now()
	}
	if len(m.b)+len(b) > maxMessage {
		return errLong
	}
	m.b = append(m.b, b...)
	return nil
}

// headEnds are what may end a message's headers, by what net/http takes.
var headEnds = [][]byte{[]byte("\n\r\n"), []byte("\n\n")}

// may says whether the message may be whole by now.
func (m *message) may() bool {
	return len(m.b) >= max(m.want, 1) && slices.ContainsFunc(headEnds, func(end []byte) bool { return bytes.Contains(m.b, end) })
}

// next goes on behind a message that was read.
func (m *message) next(size int) {
	m.b, m.want = append(m.b[:0], m.b[size:]...), 0
	m.since = history.Now()
}

// Said implements link.Stream.
func (c *conn) Said(d link.Dir, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return
	}
	m := &c.up
	if d == link.Down {
		m = &c.down
	}
	err := m.add(b)
	if err == nil && (m.b[0] < 'A' || m.b[0] > 'Z') && m.b[0] != '\r' && m.b[0] != '\n' {
		err = errForeign // TLS, say
	}
	if err == nil {
		err = c.read(false)
	}
	if err != nil {
		c.dead = true
		c.tap.unread.Note(c.link, err)
	}
}

// Ended implements link.Stream.
func (c *conn) Ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead {
		if err := c.read(true); err != nil {
			c.tap.unread.Note(c.link, err)
		}
	}
	for _, e := range c.waiting {
		c.tell(e)
	}
	c.waiting = nil
}

// read takes all messages that are whole. ended: no more bytes come, which ends an answer
// without a length.
func (c *conn) read(ended bool) error {
	for c.up.may() {
		whole, err := c.request()
		if err != nil || !whole {
			if err != nil {
				return err
			}
			break
		}
	}
	for c.down.may() && len(c.waiting) > 0 {
		whole, err := c.response(ended)
		if err != nil || !whole {
			return err
		}
	}
	return nil
}

func (c *conn) request() (whole bool, err error) {
	in := newReader(c.up.b)
	req, err := http.ReadRequest(in.buf)
	if err != nil {
		return false, in.lacks(err)
	}
	if req.ProtoMajor != 1 {
		return false, errForeign
	}
	head := in.taken()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		if err = in.lacks(err); err == nil && c.up.want == 0 && c.tap.opt.Begun != nil {
			c.tap.opt.Begun(c.link, req)
		}
		c.up.want = head + int(max(req.ContentLength, 0))
		return false, err
	}
	c.waiting = append(c.waiting, Exchange{Request: req, Body: body, Sent: c.up.since})
	c.up.next(in.taken())
	return true, nil
}

func (c *conn) response(ended bool) (whole bool, err error) {
	in := newReader(c.down.b)
	e := &c.waiting[0]
	resp, err := http.ReadResponse(in.buf, e.Request)
	if err != nil {
		return false, in.lacks(err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return false, errForeign
	}
	if resp.StatusCode < http.StatusOK { // the answer is still to come
		c.down.next(in.taken())
		return true, nil
	}
	head := in.taken()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.down.want = head + int(max(resp.ContentLength, 0))
		return false, in.lacks(err)
	}
	if resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && !ended {
		return false, nil
	}
	e.Response, e.Answer, e.Answered = resp, body, history.Now()
	c.tell(*e)
	c.waiting = c.waiting[1:]
	c.down.next(in.taken())
	return true, nil
}

func (c *conn) tell(e Exchange) {
	if c.tap.opt.Exchange != nil {
		c.tap.opt.Exchange(c.link, e)
	}
}

// reader knows how much of a message's bytes it has read.
type reader struct {
	src *bytes.Reader
	buf *bufio.Reader
	all int
}

func newReader(b []byte) *reader {
	src := bytes.NewReader(b)
	return &reader{src, bufio.NewReader(src), len(b)}
}

func (r *reader) taken() int { return r.all - r.src.Len() - r.buf.Buffered() }

// lacks is nil if only more bytes are needed. Where a trailer ends too early net/http has an
// error of its own.
func (r *reader) lacks(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "unexpected EOF") {
		return nil
	}
	return fmt.Errorf("%w: %w", errForeign, err)
}
