package cassandrasink

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// fakeDB executes exactly the statements of this package on partitions in
// memory, over a network that loses requests and replies.
type fakeDB struct {
	mu    sync.Mutex
	net   *sim.Session
	rnd   *rand.Rand
	parts map[string]*part
	stale float64 // plain reads that show the partition before its last change

	// noHeaderCheck plants a bug: the header's condition is ignored.
	noHeaderCheck bool
	// hidesKeys plants a bug: a rejected batch shows the header alone.
	hidesKeys bool
	// losesSeals plants a bug: nothing tells that a header was sealed.
	losesSeals bool
	// forgetsDrops plants a bug: a trim does not see that another has gone further.
	forgetsDrops bool
	// hidesFloors plants a bug: a plain read shows no floor.
	hidesFloors bool
	unexpected  error
}

type row = map[string]any

type part struct {
	header row
	keys   map[string]row
	ledger []row
	all    []row // of the ledger, also those that were dropped
	before *part
}

func newFake(seed uint64) *fakeDB {
	f := &fakeDB{net: sim.New().Connect("sink", seed), rnd: rand.New(rand.NewPCG(seed, 9)), parts: map[string]*part{}}
	f.faults(sim.Faults{})
	return f
}

func (f *fakeDB) faults(faults sim.Faults) {
	faults.Latency = 2 * time.Millisecond
	f.net.SetFaults(faults)
}

func (f *fakeDB) part(resource string) *part {
	p := f.parts[resource]
	if p == nil {
		p = &part{keys: map[string]row{}}
		f.parts[resource] = p
	}
	return p
}

func (f *fakeDB) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = 0
	f.faults(sim.Faults{})
}

// call runs do at the database, whatever becomes of the caller.
func (f *fakeDB) call(ctx context.Context, do func()) error {
	return f.net.Call(ctx, "sink", func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		do()
	})
}

func (f *fakeDB) CAS(ctx context.Context, _ int, stmts ...store.Statement) (bool, []map[string]any, error) {
	// Not the results: a late copy writes them after the return.
	var applied bool
	var rows []map[string]any
	err := f.call(ctx, func() { applied, rows = f.exec(stmts) })
	if err != nil {
		return false, nil, err
	}
	return applied, rows, nil
}

// exec checks all conditions and then, if they hold, does all changes.
func (f *fakeDB) exec(stmts []store.Statement) (bool, []map[string]any) {
	var p *part
	var rows []map[string]any
	ok := true
	var changes []func()
	for _, s := range stmts {
		a := s.Args
		switch s.CQL {
		case insertHeader:
			p = f.part(a[0].(string))
			ok = ok && p.header == nil
			rows = appendRow(rows, p.header)
			changes = append(changes, func() {
				p.header = row{"kind": int8(0), "key": "", "issuer": a[1], "highest": a[2], "last_seq": a[3], "value": a[4], "payload": a[5]}
			})
		case raiseHeader, writeHeader, sealHeader:
			n := len(a) - 4
			p = f.part(a[n].(string))
			h := p.header
			ok = ok && h != nil && (f.noHeaderCheck || h["issuer"] == a[n+1] && h["highest"] == a[n+2] && h["last_seq"] == a[n+3])
			rows = appendRow(rows, h)
			changes = append(changes, func() {
				p.header["highest"], p.header["last_seq"] = a[0], a[1]
				switch s.CQL {
				case writeHeader:
					p.header["value"], p.header["payload"] = a[2], a[3]
				case sealHeader:
					if !f.losesSeals {
						p.header["entry_seq"] = a[2]
					}
				}
			})
		case insertKey:
			k := p.keys[a[1].(string)]
			ok = ok && k == nil
			rows = appendRow(rows, k)
			changes = append(changes, func() {
				p.keys[a[1].(string)] = row{"kind": int8(1), "key": a[1], "fence": a[2], "fingerprint": a[3], "attempt": a[4], "entry_seq": a[5], "at": a[6]}
			})
		case dropUpTo:
			p = f.part(a[1].(string))
			h := p.header
			ok = ok && h != nil && h["issuer"] == a[2] && h["highest"] == a[3] && h["last_seq"] == a[4] && (f.forgetsDrops || h["fence"] == a[5])
			rows = appendRow(rows, h)
			changes = append(changes, func() { p.header["fence"] = a[0] })
		case deleteUpTo:
			changes = append(changes, func() {
				p.ledger = slices.DeleteFunc(slices.Clone(p.ledger), func(r row) bool { return r["seq"].(int64) <= a[1].(int64) })
			})
		case insertRaise, insertSeal:
			entry := "raise"
			if s.CQL == insertSeal {
				entry = "seal"
			}
			changes = append(changes, func() {
				p.log(row{"seq": a[1], "entry": entry, "issuer": a[2], "fence": a[3], "effect_key": nil, "value": nil, "at": a[4]})
			})
		case insertAccept:
			changes = append(changes, func() {
				p.log(row{"seq": a[1], "entry": "accept", "issuer": a[2], "fence": a[3], "effect_key": a[4], "value": a[5], "at": a[6]})
			})
		case deleteHeader:
			p = f.part(a[0].(string))
			h := p.header
			ok = ok && h != nil && h["issuer"] == a[1] && h["highest"] == a[2] && h["last_seq"] == a[3]
			rows = appendRow(rows, h)
			changes = append(changes, func() { p.header = nil })
		case deleteKeys:
			changes = append(changes, func() { clear(p.keys) })
		case deleteLedger:
			changes = append(changes, func() { p.ledger = nil })
		case deleteKey:
			p = f.part(a[0].(string))
			k := p.keys[a[1].(string)]
			ok = ok && k != nil && k["attempt"] == a[2]
			rows = appendRow(rows, k)
			changes = append(changes, func() { delete(p.keys, a[1].(string)) })
		default:
			f.unexpected = fmt.Errorf("statement %q", s.CQL)
			return false, nil
		}
	}
	if !ok && f.hidesKeys {
		return false, appendRow(nil, p.header)
	}
	if !ok {
		return false, named(stmts, rows)
	}
	p.before = p.copy()
	for _, change := range changes {
		change()
	}
	return true, nil
}

// named leaves of the rows of a rejection the columns that its conditions name: all, if one
// is that a row does not exist.
func named(stmts []store.Statement, rows []row) []row {
	for _, s := range stmts {
		if strings.HasSuffix(s.CQL, "IF NOT EXISTS") {
			return rows
		}
	}
	for _, r := range rows {
		maps.DeleteFunc(r, func(column string, _ any) bool {
			return !slices.Contains([]string{"kind", "key", "issuer", "highest", "last_seq", "fence", "attempt"}, column)
		})
	}
	return rows
}

// log writes a ledger row; one with the same number is overwritten, as in a table.
func (p *part) log(r row) {
	for i, have := range p.ledger {
		if have["seq"] == r["seq"] {
			p.ledger[i] = r
			return
		}
	}
	p.ledger, p.all = append(p.ledger, r), append(p.all, r)
}

func (p *part) copy() *part {
	c := &part{header: maps.Clone(p.header), keys: map[string]row{}, ledger: slices.Clone(p.ledger)}
	for k, r := range p.keys {
		c.keys[k] = maps.Clone(r)
	}
	return c
}

func appendRow(rows []map[string]any, r row) []map[string]any {
	if r == nil {
		return rows
	}
	return append(rows, maps.Clone(r))
}

func (f *fakeDB) QueryBy(ctx context.Context, _ int, serial bool, s store.Statement) ([]map[string]any, error) {
	var rows []map[string]any
	err := f.call(ctx, func() {
		p := f.part(s.Args[0].(string))
		switch {
		case serial: // it completes what was half-way: nobody reads older state from now on
			p.before = nil
		case p.before != nil && f.rnd.Float64() < f.stale:
			p = p.before
		}
		switch {
		case s.CQL == selectLedger:
			rows = slices.Clone(p.ledger)
			slices.SortFunc(rows, func(a, b map[string]any) int { return int(a["seq"].(int64) - b["seq"].(int64)) })
			rows = slices.DeleteFunc(rows, func(r row) bool { return r["seq"].(int64) <= s.Args[1].(int64) })
			rows = rows[:min(len(rows), s.Args[2].(int))]
		case s.CQL == selectTimes:
			rows = slices.Clone(p.ledger)
		case s.CQL == selectKeys:
			for _, k := range p.keys {
				rows = appendRow(rows, k)
			}
		case strings.HasPrefix(s.CQL, "SELECT kind, key, issuer"):
			if f.hidesFloors && !serial && sink.IsFloor(s.Args[0].(string)) {
				return
			}
			rows = appendRow(rows, p.header)
			seen := map[any]bool{}
			for _, k := range s.Args[1:] {
				if !seen[k] {
					seen[k] = true
					rows = appendRow(rows, p.keys[k.(string)])
				}
			}
		default:
			f.unexpected = fmt.Errorf("statement %q", s.CQL)
		}
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}
