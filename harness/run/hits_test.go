package run

import (
	"encoding/hex"
	"slices"
	"testing"

	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
)

// The operation that a point stands before is the one that its client had begun and not ended.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	event := func(ts, id int64, typ history.Type, op history.Op, proc, key, issuer string) history.Event {
		return history.Event{TS: ts, ID: id, Type: typ, Op: op, Proc: proc, Key: key, Issuer: issuer}
	}
	const c1, c2 = "w1.1/c1", "w1.1/c2"
	h := &history.History{Events: []history.Event{
		event(1, 1, history.Invoke, history.OpAcquire, c1, "l", ""), event(2, 1, history.Fail, history.OpAcquire, c1, "l", ""),
		event(3, 2, history.Invoke, history.OpAcquire, c1, "l", ""), event(4, 3, history.Invoke, history.OpAcquire, c2, "l", ""),
		event(6, 2, history.OK, history.OpAcquire, c1, "l", ""), event(7, 4, history.Invoke, history.OpEffect, c1, "r", "l"),
		event(9, 4, history.OK, history.OpEffect, c1, "r", "l"),
	}}
	for _, c := range []struct {
		at    int64
		point control.Point
		proc  string
		key   string
		want  int64 // 0: none
	}{
		{5, control.AcquireSent, c1, "l", 2}, {5, control.AcquireSent, c2, "l", 3}, {5, control.AcquireSent, c1, "m", 0}, {7, control.AcquireSent, c1, "l", 0},
		{2, control.AcquireSent, c2, "l", 0}, {8, control.EffectSent, c1, "l", 4}, {8, control.EffectSent, c1, "r", 4}, {8, control.EffectSent, c2, "l", 0}, {10, control.EffectSent, c1, "l", 0},
	} {
		got := int64(0)
		if inv := underWay(h, sentPoints[c.point], fleet.Hit{At: c.at, Proc: c.proc, Key: c.key}); inv != nil {
			got = inv.ID
		}
		if got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// A value of a row is looked for in each form in which a program may write it.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, hex string }{
		{"lock-01", hex.EncodeToString([]byte("lock-01"))},
		{"0d9a6c1e-5f6b-4a39-8a3f-4d0a2f3c7b11", "0d9a6c1e5f6b4a398a3f4d0a2f3c7b11"},
		{"0d9a6c1e5f6b4a398a3f4d0a2f3c7b11", "0d9a6c1e5f6b4a398a3f4d0a2f3c7b11"},
		{"258", "0000000000000102"}, {"258", "00000102"}, {"258", hex.EncodeToString([]byte("258"))},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(forms(c.text), func(f []byte) bool { return string(f) == string(b) }) {
			t.Errorf("%s has no form %s: %x", c.text, c.hex, forms(c.text))
		}
	}
}
