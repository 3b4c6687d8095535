package cqltap

import (
	"hash/maphash"
	"slices"

	"fencepost/harness/record/history"
)

// write is one request that changes rows.
type write struct {
	at     int64    // as history.Now, when its last byte had come
	values []uint64 // digests of what it carried
}

// writes are kept by where they came from, in order.
type writes map[string][]write

func (w writes) add(from string, values []uint64) {
	w[from] = append(w[from], write{history.Now(), values})
}

// seed makes digests comparable within the process.
var seed = maphash.MakeSeed()

// values are those of one request, bound or written into its text.
type values struct {
	keep  bool
	bound int
	all   []uint64
}

func (v *values) bind(b []byte) {
	v.bound++
	v.add(b)
}

func (v *values) add(b []byte) {
	if v.keep && b != nil {
		v.all = append(v.all, maphash.Bytes(seed, b))
	}
}

// literals adds what is written into a statement's text.
func (v *values) literals(cql []byte) {
	if !v.keep {
		return
	}
	for _, b := range literals.FindAll(cql, -1) {
		if b[0] == '\'' {
			b = b[1 : len(b)-1]
		}
		v.add(b)
	}
}

func (v *values) of(t *text) []uint64 {
	if !v.keep || !t.writes {
		return nil
	}
	if v.all == nil {
		return []uint64{}
	}
	return v.all
}

// FirstWrite is when a side that opens connections first sent a write that carries one of the
// encodings of each of the values, as history.Now; 0: never, or Options.Writes is off. A write
// before since does not count.
func (t *Tap) FirstWrite(from string, since int64, values ...[][]byte) int64 {
	want := make([][]uint64, len(values))
	for i, v := range values {
		for _, b := range v {
			want[i] = append(want[i], maphash.Bytes(seed, b))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.writes[from] {
		if w.at >= since && w.carries(want) {
			return w.at
		}
	}
	return 0
}

func (w write) carries(want [][]uint64) bool {
	for _, any := range want {
		if !slices.ContainsFunc(any, func(d uint64) bool { return slices.Contains(w.values, d) }) {
			return false
		}
	}
	return true
}
