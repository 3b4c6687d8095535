package link

// Counters is a consistent snapshot of a link since it was added. All values
// but the gauges PendingBytes, HeldBytes and ConnsOpen only grow.
type Counters struct {
	Up, Down DirCounters

	// ConnsAccepted = ConnsOpened + ConnsRefused + ConnsUnreachable + those that
	// still wait for the upstream.
	ConnsAccepted int64
	// ConnsOpened counts connections that reached the upstream.
	ConnsOpened int64
	// ConnsClosed counts opened connections that ended, for whatever reason.
	ConnsClosed int64
	// ConnsCut counts those that the link itself reset: by Close, or by the end of a
	// Drop that had cost them bytes, or by removal. Part of ConnsClosed.
	ConnsCut int64
	// ConnsRefused counts connections reset on arrival by Close.
	ConnsRefused int64
	// ConnsUnreachable counts connections reset because the upstream could not be
	// reached within Options.DialTimeout.
	ConnsUnreachable int64
	// ConnsBlackholed counts connections opened while a direction was stalled or
	// dropping: TCP connects succeed then, only data does not arrive.
	ConnsBlackholed int64
	// ConnsOpen is a gauge: connections open now.
	ConnsOpen int64
}

// DirCounters counts bytes of one direction over all connections. At any
// instant Received = Passed + Dropped + Lost + Pending.
type DirCounters struct {
	// ReceivedBytes were read from the sender's socket.
	ReceivedBytes int64
	// PassedBytes were written to the receiver's socket. They count when the write
	// has returned, and are pending until then; what Apply and Flush have waited for
	// is counted when they return.
	PassedBytes int64
	// DroppedBytes were discarded by Drop.
	DroppedBytes int64
	// LostBytes were inside the link when their connection ended.
	LostBytes int64
	// PendingBytes is a gauge: inside the link now, whatever the mode.
	PendingBytes int64
	// HeldBytes is a gauge: held by Stall now.
	HeldBytes int64
	// HeldTotalBytes were ever held by Stall, each byte counted once.
	HeldTotalBytes int64
	// DelayedBytes were ever given a delay by Latency, each byte counted once.
	DelayedBytes int64
}

// Dir returns the counters of one direction.
func (c Counters) Dir(d Dir) DirCounters {
	if d == Down {
		return c.Down
	}
	return c.Up
}

// Sub returns what happened since prev. The gauges keep their present value:
// they say how it is, not what changed.
func (c Counters) Sub(prev Counters) Counters {
	c.Up = c.Up.Sub(prev.Up)
	c.Down = c.Down.Sub(prev.Down)
	c.ConnsAccepted -= prev.ConnsAccepted
	c.ConnsOpened -= prev.ConnsOpened
	c.ConnsClosed -= prev.ConnsClosed
	c.ConnsCut -= prev.ConnsCut
	c.ConnsRefused -= prev.ConnsRefused
	c.ConnsUnreachable -= prev.ConnsUnreachable
	c.ConnsBlackholed -= prev.ConnsBlackholed
	return c
}

// Add returns the sum over two links.
func (c Counters) Add(o Counters) Counters {
	c.Up = c.Up.Add(o.Up)
	c.Down = c.Down.Add(o.Down)
	c.ConnsAccepted += o.ConnsAccepted
	c.ConnsOpened += o.ConnsOpened
	c.ConnsClosed += o.ConnsClosed
	c.ConnsCut += o.ConnsCut
	c.ConnsRefused += o.ConnsRefused
	c.ConnsUnreachable += o.ConnsUnreachable
	c.ConnsBlackholed += o.ConnsBlackholed
	c.ConnsOpen += o.ConnsOpen
	return c
}

// Sub returns what happened since prev; the gauges keep their present value.
func (d DirCounters) Sub(prev DirCounters) DirCounters {
	d.ReceivedBytes -= prev.ReceivedBytes
	d.PassedBytes -= prev.PassedBytes
	d.DroppedBytes -= prev.DroppedBytes
	d.LostBytes -= prev.LostBytes
	d.HeldTotalBytes -= prev.HeldTotalBytes
	d.DelayedBytes -= prev.DelayedBytes
	return d
}

// Add returns the sum of two.
func (d DirCounters) Add(o DirCounters) DirCounters {
	d.ReceivedBytes += o.ReceivedBytes
	d.PassedBytes += o.PassedBytes
	d.DroppedBytes += o.DroppedBytes
	d.LostBytes += o.LostBytes
	d.PendingBytes += o.PendingBytes
	d.HeldBytes += o.HeldBytes
	d.HeldTotalBytes += o.HeldTotalBytes
	d.DelayedBytes += o.DelayedBytes
	return d
}
