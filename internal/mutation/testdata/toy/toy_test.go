package toy

import "testing"

func TestHalf(t *testing.T) {
	for _, n := range []int{0, 1, 5} {
		if got, err := Half(n); got != n/2 || err != nil {
			t.Error(n, got, err)
		}
	}
	if _, err := Half(-1); err == nil {
		t.Error("half of a negative number")
	}
}

func TestLarger(t *testing.T) {
	if Larger(1, 2) != 2 || Larger(2, 1) != 2 {
		t.Error("not the larger one")
	}
}

func TestWait(t *testing.T) {
	Wait(8)
}

func TestSign(t *testing.T) {
	if Sign(7) != 2 {
		t.Error("not the sign")
	}
}

func TestLeast(t *testing.T) {
	for n, want := range map[int]int{0: 0, Least: 0} {
		if got, err := Half(n); got != want || err != nil {
			t.Error(n, got, err)
		}
	}
}
