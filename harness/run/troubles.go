package run

import (
	"slices"
	"sync"
)

// troubles are what could not be sealed or read, by kind: hundreds of one are told as one.
type troubles struct {
	mu    sync.Mutex
	kinds []trouble
}

type trouble struct {
	what  string
	n     int
	first error
}

// add notes an error; nil is none.
func (t *troubles) add(what string, err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.kinds, func(k trouble) bool { return k.what == what })
	if i < 0 {
		i = len(t.kinds)
		t.kinds = append(t.kinds, trouble{what: what, first: err})
	}
	t.kinds[i].n++
}

// tell says what there is, with the first of each kind.
func (t *troubles) tell(problem func(format string, args ...any)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kinds {
		problem("after the run, %s: %d times; the first: %v", k.what, k.n, k.first)
	}
}
