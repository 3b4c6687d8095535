package engine

import "time"

// WithAnchor makes an owner count its trust from another instant than it should,
// to prove that the simulation notices.
func (o Options) WithAnchor(anchor func(firstSend, answered time.Duration) time.Duration) Options {
	o.anchor = anchor
	return o
}
