//go:build growth

package boltsink

// growth is how many effects the test of growth makes: make sink-growth.
const growth = 1_000_000
