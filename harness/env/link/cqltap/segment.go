package cqltap

import "errors"

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
