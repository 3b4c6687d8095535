// Package linktest gives tests a link of their own.
package linktest

import (
	"testing"

	"fencepost/harness/env/link"
)

// Open opens a link from w1 to an upstream, which is called to in the link's name and read by
// tap. It ends with the test.
func Open(t testing.TB, to, upstream string, tap link.Tap) *link.Link {
	t.Helper()
	f := link.NewFabric(link.Options{})
	l, err := f.Add(link.Spec{From: "w1", To: to, Listen: "127.0.0.1:0", Upstream: upstream, Tap: tap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}
