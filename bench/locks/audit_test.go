package locks

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fencepost/core/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fakeLease struct {
	token  int64
	holder string
	ended  bool
}

func (l *fakeLease) Token() int64   { return l.token }
func (l *fakeLease) Holder() string { return l.holder }
func (l *fakeLease) Valid() bool    { return !l.ended }

func TestAuditTokens(t *testing.T) {
	t.Parallel()
	lease := func(token int64) *fakeLease { return &fakeLease{token: token, holder: "t"} }
	ended := func(token int64) *fakeLease { return &fakeLease{token: token, holder: "t", ended: true} }
	for _, c := range []struct {
		name string
		do   func(k *keyAudit)
		want string // part of the only violation; "" for none
	}{
		{"rising", func(k *keyAudit) {
			for i := int64(1); i < 5; i++ {
				l := lease(i)
				k.enter(l)
				k.leave(l)
			}
		}, ""},
		{"rising with a gap", func(k *keyAudit) {
			for _, i := range []int64{1, 2, 9} {
				l := lease(i)
				k.enter(l)
				k.leave(l)
			}
		}, ""},
		{"taken over after its end", func(k *keyAudit) {
			old := lease(1)
			k.enter(old)
			old.ended = true
			l := lease(2)
			k.enter(l)
			k.leave(old)
			k.leave(l)
		}, ""},
		{"a late comer whose lease has ended", func(k *keyAudit) {
			l := lease(2)
			k.enter(l)
			k.leave(l)
			k.enter(ended(1))
			k.enter(lease(3))
		}, ""},
		{"falling", func(k *keyAudit) {
			l := lease(7)
			k.enter(l)
			k.leave(l)
			k.enter(lease(6))
		}, "token 6 was handed out after token 7"},
		{"twice", func(k *keyAudit) {
			l := lease(7)
			k.enter(l)
			k.leave(l)
			k.enter(lease(7))
		}, "token 7 was handed out twice"},
		{"twice, late", func(k *keyAudit) {
			for _, i := range []int64{3, 4} {
				l := lease(i)
				k.enter(l)
				k.leave(l)
			}
			k.enter(ended(3))
		}, "token 3 was handed out twice"},
		{"two at once", func(k *keyAudit) {
			k.enter(lease(1))
			k.enter(lease(2))
		}, "holds it with token 2 while t still does with token 1"},
	} {
		a := newAudit()
		c.do(a.key("k"))
		got := a.found()
		if c.want == "" && len(got) > 0 {
			t.Errorf("%s: %v", c.name, got)
		}
		if c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want one with %q", c.name, got, c.want)
		}
	}
}

// fixedRows answers reads only.
type fixedRows struct {
	store.Locks
	rows map[string]*store.Version
	err  error
}

func (f fixedRows) Read(_ context.Context, resource string, serial bool) (*store.Version, error) {
	if !serial {
		return nil, errors.New("the audit must read by SERIAL")
	}
	return f.rows[resource], f.err
}

func TestAuditRows(t *testing.T) {
	t.Parallel()
	fence := func(v *store.Version) int64 { return v.Fence }
	for _, c := range []struct {
		name            string
		changes, doubts int
		token           int64
		row             *store.Version
		want            string
	}{
		{"exact", 3, 0, 3, &store.Version{Fence: 3}, ""},
		{"an unknown one applied", 3, 1, 4, &store.Version{Fence: 4}, ""},
		{"an unknown one did not", 3, 1, 3, &store.Version{Fence: 3}, ""},
		{"nothing ever", 0, 0, 0, nil, ""},
		{"only an unknown one", 0, 1, 0, nil, ""},
		{"one lost", 3, 0, 0, &store.Version{Fence: 2}, "shows 2 changes; 3 were acknowledged"},
		{"one too many", 3, 1, 0, &store.Version{Fence: 5}, "shows 5 changes"},
		{"row gone", 1, 0, 0, nil, "shows 0 changes"},
		{"token above the row", 3, 0, 4, &store.Version{Fence: 3}, "token 4 was handed out"},
	} {
		a := newAudit()
		k := a.key("k")
		for range c.changes {
			k.changed()
		}
		for range c.doubts {
			k.doubt()
		}
		if c.token > 0 {
			k.enter(&fakeLease{token: c.token, ended: true})
		}
		if err := a.verifyRows(t.Context(), fixedRows{rows: map[string]*store.Version{"k": c.row}}, fence); err != nil {
			t.Fatal(err)
		}
		got := a.found()
		if c.want == "" && len(got) > 0 {
			t.Errorf("%s: %v", c.name, got)
		}
		if c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want one with %q", c.name, got, c.want)
		}
	}
}

func TestAuditRowsUnreadable(t *testing.T) {
	t.Parallel()
	a := newAudit()
	a.key("k").changed()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no pauses between tries
	if err := a.verifyRows(ctx, fixedRows{err: errors.New("no node")}, nil); err == nil || !strings.Contains(err.Error(), "no node") {
		t.Errorf("error %v, want one that says why the row could not be read", err)
	}
}
