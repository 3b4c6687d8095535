//go:build !growth

package boltsink

// growth is how many effects the test of growth makes: a million with make sink-growth.
const growth = 3000
