package control

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func newTestGate() (*Gate, chan Message) {
	sent := make(chan Message, 10)
	return NewGate(func(m Message) error { sent <- m; return nil }), sent
}

func TestUnarmedPointCostsNothing(t *testing.T) {
	t.Parallel()
	g, sent := newTestGate()
	if _, hit := g.Reach(t.Context(), Holding, "w1.1/c1", "l"); hit {
		t.Error("hit without arming")
	}
	var none *Gate
	if _, hit := none.Reach(t.Context(), Holding, "w1.1/c1", "l"); hit {
		t.Error("a nil gate is hit")
	}
	if len(sent) != 0 {
		t.Error("something was reported")
	}
}

func TestArmedPointStandsStillUntilGo(t *testing.T) {
	t.Parallel()
	g, sent := newTestGate()
	g.Arm(7, Holding, "")
	if _, hit := g.Reach(t.Context(), EffectSent, "w1.1/c1", "l"); hit {
		t.Error("another point is hit")
	}
	done := make(chan time.Duration)
	go func() {
		hold, _ := g.Reach(context.Background(), Holding, "w1.1/c2", "l")
		done <- hold
	}()
	m := <-sent
	if m.Cmd != CmdHit || m.ID != 7 || m.Proc != "w1.1/c2" || m.Key != "l" {
		t.Errorf("reported %+v", m)
	}
	// One arming is one hit: the next client passes while the first stands.
	if _, hit := g.Reach(t.Context(), Holding, "w1.1/c3", "l"); hit {
		t.Error("hit twice")
	}
	select {
	case <-done:
		t.Error("it went on without go")
	default:
	}
	g.Go(Message{Cmd: CmdGo, ID: 7, Hold: 3 * time.Second})
	if hold := <-done; hold != 3*time.Second {
		t.Errorf("hold %s", hold)
	}
}

func TestArmedAtAKey(t *testing.T) {
	t.Parallel()
	g, sent := newTestGate()
	g.Arm(1, Holding, "l")
	g.Arm(2, Holding, "")
	g.Arm(3, Holding, "m")
	for _, c := range []struct {
		key  string
		want int // the first that fits
	}{{"m", 2}, {"l", 1}} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.Reach(context.Background(), Holding, "w1.1/c1", c.key)
		}()
		if m := <-sent; m.ID != c.want || m.Key != c.key {
			t.Errorf("at %s: reported %+v, want id %d", c.key, m, c.want)
		}
		g.Go(Message{Cmd: CmdGo, ID: c.want})
		<-done
	}
	if _, hit := g.Reach(t.Context(), Holding, "w1.1/c1", "other"); hit {
		t.Error("hit at another key")
	}
	g.Disarm(3)
	if _, hit := g.Reach(t.Context(), Holding, "w1.1/c1", "m"); hit {
		t.Error("hit after disarming")
	}
}

func TestDisarm(t *testing.T) {
	t.Parallel()
	g, _ := newTestGate()
	g.Arm(1, Holding, "")
	g.Disarm(1)
	g.Disarm(1)
	if _, hit := g.Reach(t.Context(), Holding, "p", "l"); hit {
		t.Error("hit after disarming")
	}
}

func TestStandingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	g, sent := newTestGate()
	g.Arm(1, Holding, "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-sent; cancel() }()
	if hold, hit := g.Reach(ctx, Holding, "p", "l"); !hit || hold != 0 {
		t.Errorf("hold %s, hit %t", hold, hit)
	}
}

func TestPairCarriesMessages(t *testing.T) {
	t.Parallel()
	a, file, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	b := NewConn(file)
	defer b.Close()
	want := Message{Cmd: CmdArm, ID: 3, Point: RenewSent}
	if err := a.Send(want); err != nil {
		t.Fatal(err)
	}
	got, err := b.Receive()
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	a.Close()
	if _, err := b.Receive(); err == nil {
		t.Error("the other side's end is not seen")
	}
}

// A client that is never told to go on does so by itself, and says so.
func TestLateGoIsTold(t *testing.T) {
	t.Parallel()
	g, sent := newTestGate()
	g.limit = 20 * time.Millisecond
	g.Arm(3, EffectSent, "")
	if hold, hit := g.Reach(t.Context(), EffectSent, "w1.1/c1", "l"); !hit || hold != 0 {
		t.Errorf("hold %s, hit %t", hold, hit)
	}
	if m := <-sent; m.Cmd != CmdHit {
		t.Errorf("first %+v", m)
	}
	if m := <-sent; m.Cmd != CmdLate || m.ID != 3 || m.Proc != "w1.1/c1" {
		t.Errorf("then %+v", m)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
