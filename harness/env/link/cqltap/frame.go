package cqltap

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Opcode is what a frame is.
type Opcode byte

// Opcodes of the native protocol.
const (
	OpError        Opcode = 0x00
	OpStartup      Opcode = 0x01
	OpReady        Opcode = 0x02
	OpAuthenticate Opcode = 0x03
	OpOptions      Opcode = 0x05 // drivers send it as a heartbeat
	OpSupported    Opcode = 0x06
	OpQuery        Opcode = 0x07
	OpResult       Opcode = 0x08
	OpPrepare      Opcode = 0x09
	OpExecute      Opcode = 0x0A
	OpRegister     Opcode = 0x0B
	OpEvent        Opcode = 0x0C
	OpBatch        Opcode = 0x0D
	OpAuthResponse Opcode = 0x0F

	opcodes = 0x11
)

// Sizes of the protocol.
const (
	headSize = 9
	// maxFrame is the longest frame that a node takes by default (256 MiB); what claims to
	// be longer is no frame.
	maxFrame = 256 << 20
	// maxKept is the longest frame whose statement is looked for.
	maxKept = 16 << 20
)

// Flags of a frame.
const (
	flagCompressed = 0x01
	flagTracing    = 0x02
	flagPayload    = 0x04
	flagWarning    = 0x08
)

// head is a frame's header.
type head struct {
	version byte // without the bit that tells answers
	answer  bool
	flags   byte
	stream  int16
	op      Opcode
	length  int
}

// errForeign: the bytes are no frames.
var errForeign = errors.New("its bytes are not the CQL native protocol")

func parseHead(b []byte) (head, error) {
	h := head{
		version: b[0] & 0x7f, answer: b[0]&0x80 != 0, flags: b[1], stream: int16(binary.BigEndian.Uint16(b[2:])),
		op: Opcode(b[4]), length: int(int32(binary.BigEndian.Uint32(b[5:]))),
	}
	if h.length < 0 || h.length > maxFrame || h.op >= opcodes {
		return h, errForeign
	}
	return h, nil
}

// frames cuts one direction of a connection into frames.
type frames struct {
	kept []byte // of a frame that is not whole yet and is wanted whole
	now  head   // of the frame that is being skipped
	left int    // bytes of it still to come
}

// add takes the next bytes. wanted says whether a frame's body is needed; each gets every
// frame when its last byte has come, without its body if that is not needed.
func (f *frames) add(b []byte, wanted func(head) bool, each func(head, []byte) error) error {
	for len(b) > 0 {
		if f.left > 0 {
			n := min(f.left, len(b))
			b, f.left = b[n:], f.left-n
			if f.left == 0 {
				if err := each(f.now, nil); err != nil {
					return err
				}
			}
			continue
		}
		if n := headSize - len(f.kept); n > 0 && (len(f.kept) > 0 || len(b) < headSize) {
			n = min(n, len(b))
			f.kept, b = append(f.kept, b[:n]...), b[n:]
			if len(f.kept) < headSize {
				return nil
			}
		}
		whole := f.kept
		if len(whole) == 0 {
			whole = b
		}
		h, err := parseHead(whole)
		if err != nil {
			return err
		}
		size := headSize + h.length
		if len(f.kept) <= headSize && (h.length > maxKept || !wanted(h)) {
			f.now, f.left = h, size
			if len(f.kept) > 0 { // its header alone
				f.left, f.kept = h.length, f.kept[:0]
			}
			if f.left == 0 {
				err = each(h, nil)
			}
		} else if len(f.kept) == 0 && len(b) >= size {
			err, b = each(h, b[headSize:size]), b[size:]
		} else {
			n := min(size-len(f.kept), len(b))
			f.kept, b = append(f.kept, b[:n]...), b[n:]
			if len(f.kept) == size {
				err = each(h, f.kept[headSize:])
				f.kept = f.release()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// release empties what was kept; a large frame's memory is given up.
func (f *frames) release() []byte {
	if cap(f.kept) > 64<<10 {
		return nil
	}
	return f.kept[:0]
}

// body reads a frame's fields one after the other. Its first error sticks.
type body struct {
	b   []byte
	err error
}

func (r *body) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		if r.err == nil {
			r.err = fmt.Errorf("a frame ends before its fields do")
		}
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *body) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *body) short() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *body) int() int {
	if b := r.take(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

func (r *body) text() []byte     { return r.take(int(r.short())) }
func (r *body) longText() []byte { return r.take(r.int()) }

// value is one bound value; nil for null and for unset.
func (r *body) value() []byte {
	if n := r.int(); n >= 0 {
		return r.take(n)
	}
	return nil
}

// payload passes over a map of custom payload.
func (r *body) payload() {
	for n := r.short(); n > 0 && r.err == nil; n-- {
		r.text()
		r.value()
	}
}

// segments is the outer layer of version 5 without compression: frames in segments of at
// most 128 KiB, each with a header of three bytes and its checksum of three, and a checksum
// of four behind it, which is left to the node.
type segments struct {
	head [segmentHead]byte
	have int // bytes of head
	left int // bytes of the payload still to come
	tail int // bytes of the checksum still to come
}

const (
	segmentHead = 6
	segmentTail = 4
	// The length is in 17 bits; the next one says that the segment holds whole frames.
	segmentLength = 1<<17 - 1
	segmentBits   = 1<<18 - 1
)

var errSegment = errors.New("its segments are not those of version 5 of the CQL native protocol without compression")

// add hands on the payloads, which joined are the frames.
func (s *segments) add(b []byte, payload func([]byte) error) error {
	for len(b) > 0 {
		switch {
		case s.left > 0:
			n := min(s.left, len(b))
			if err := payload(b[:n]); err != nil {
				return err
			}
			b, s.left = b[n:], s.left-n
		case s.tail > 0:
			n := min(s.tail, len(b))
			b, s.tail = b[n:], s.tail-n
		default:
			n := copy(s.head[s.have:], b)
			b, s.have = b[n:], s.have+n
			if s.have < segmentHead {
				return nil
			}
			v := int(s.head[0]) | int(s.head[1])<<8 | int(s.head[2])<<16
			sum := int(s.head[3]) | int(s.head[4])<<8 | int(s.head[5])<<16
			if v&^segmentBits != 0 || sum != crc24(s.head[:3]) {
				return errSegment
			}
			s.have, s.left, s.tail = 0, v&segmentLength, segmentTail
		}
	}
	return nil
}

// crc24 is the checksum of a segment's header.
func crc24(b []byte) int {
	const initial, polynomial = 0x875060, 0x1974F0B
	crc := initial
	for _, c := range b {
		crc ^= int(c) << 16
		for range 8 {
			if crc <<= 1; crc&0x1000000 != 0 {
				crc ^= polynomial
			}
		}
	}
	return crc
}
