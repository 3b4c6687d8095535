package lockperjob

import "testing"

func TestHand(t *testing.T) {
	t.Parallel()
	h := newHand()
	p, retry := Pending{Due: 1, ID: "a"}, Pending{Due: 2, ID: "a"}
	if !h.take(p, 10) || h.take(p, 10) || h.take(retry, 10) {
		t.Error("a job is taken up once")
	}
	h.leave(p, 20)
	h.drop(p)
	if h.take(p, 19) || !h.take(retry, 19) {
		t.Error("a row is left alone until its lock expires, a retry is another row")
	}
	h.drop(retry)
	if !h.take(p, 20) {
		t.Error("the lock has expired")
	}
	h.drop(p)
	h.leave(p, 20)
	h.leave(retry, 30)
	if h.forget(20); len(h.held) != 1 || h.held[retry] != 30 {
		t.Errorf("left after 20: %v", h.held)
	}
}
