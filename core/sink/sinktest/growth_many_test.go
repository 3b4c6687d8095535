//go:build growth

package sinktest

// growth is how many effects the test of growth makes: make sink-growth.
const growth = 1_000_000
