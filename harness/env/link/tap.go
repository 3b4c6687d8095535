package link

// Tap reads what the connections of a link carry: the sender's own stream, before any mode
// holds, drops or delays it. So it tells what was said, not what was heard. It changes
// nothing.
type Tap interface {
	// Open is called for each connection that reached its upstream, before its first byte.
	Open(l *Link) Stream
}

// Stream is a tap on one connection.
type Stream interface {
	// Said is given the next bytes of a direction, as they come. Calls for one direction
	// follow each other; those for the two may meet. It holds up the sender, so it must not
	// block, and b is the link's own when it returns.
	Said(d Dir, b []byte)
	// Ended is called once, when nothing more comes from either side.
	Ended()
}

// said hands on what was read from the sender.
func (f *flow) said(b []byte) {
	if s := f.conn.tap; s != nil && len(b) > 0 {
		s.Said(f.dir, b)
	}
}
