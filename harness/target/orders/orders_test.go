package orders

import (
	"math/rand/v2"
	"testing"

	"fencepost/core/job"
	"fencepost/harness/target/control"
)

// What is drawn is an order: each job of it has an effect that it may make, and the point
// before the payment is at that alone.
func TestDraw(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		first := Draw(rng, 2, "o1", "q", 4)
		jobs := append([]job.Job{first}, first.Then...)
		if len(jobs) != 3 || first.Key != "o1" || first.Queue != "q" {
			t.Fatalf("%+v", first)
		}
		sent, done := 0, 0
		for _, j := range jobs {
			o, steps, may := Spec(j)
			if o == nil || o.ID != "o1" || len(steps) != 1 || o.Item != item(0) && o.Item != item(1) || o.Quantity < 1 || o.Cents < o.Quantity {
				t.Fatalf("%+v: %+v, %v, %v", j, o, steps, may)
			}
			for _, key := range append(steps, may...) {
				if p := Sent(j, key); p == control.PaymentSent {
					sent++
				} else if p != "" {
					t.Errorf("%s stands at %s", key, p)
				}
			}
			if Done(j.Kind) == control.OrderPaid {
				done++
			}
		}
		if sent != 1 || done != 1 {
			t.Errorf("%d effects are the payment's, %d kinds pay", sent, done)
		}
	}
	if o, _, _ := Spec(job.Job{Kind: "effects"}); o != nil {
		t.Errorf("%+v", o)
	}
}
