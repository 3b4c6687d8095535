package storetest

import (
	"context"
	"maps"
	"time"

	"github.com/google/uuid"

	"fencepost/core/store"
)

// RunMembers checks a store of heartbeats, in cells whose names begin with prefix.
func RunMembers(t T, s store.Members, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%v", err)
		}
	}
	cell, other := prefix+"-a", prefix+"-b"
	shows := func(cell string, want map[string]string) {
		t.Helper()
		got, err := s.Members(ctx, cell)
		must(err)
		if !maps.Equal(got, want) {
			t.Errorf("cell %s shows %v, want %v", cell, got, want)
		}
	}
	beat := func(cell, name string) string {
		t.Helper()
		nonce := uuid.NewString()
		must(s.Beat(ctx, cell, name, nonce, time.Hour))
		return nonce
	}
	shows(cell, nil)
	must(s.Leave(ctx, cell, "nobody"))
	beat(cell, "x")
	x, y, z := beat(cell, "x"), beat(cell, "y"), beat(other, "x")
	shows(cell, map[string]string{"x": x, "y": y})
	shows(other, map[string]string{"x": z})
	must(s.Leave(ctx, cell, "x"))
	shows(cell, map[string]string{"y": y})
	shows(other, map[string]string{"x": z})
	// A row that nobody renews vanishes.
	must(s.Beat(ctx, cell, "brief", uuid.NewString(), time.Second))
	for ctx.Err() == nil {
		got, err := s.Members(ctx, cell)
		must(err)
		if got["brief"] == "" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	shows(cell, map[string]string{"y": y})
}
