package locks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fencepost/bench"
)

// DefaultSpreads are what arms are spread over by default, as ParseSpreads reads it.
const DefaultSpreads = "16x4"

// maxProcesses bounds one machine's processes.
const maxProcesses = 64

// Spread is so many processes with so many threads each.
type Spread struct{ Processes, Threads int }

func (p Spread) String() string { return fmt.Sprintf("%dx%d", p.Processes, p.Threads) }

func (p Spread) check() error {
	switch {
	case p.Processes < 1 || p.Processes > maxProcesses:
		return fmt.Errorf("%s: use 1 to %d processes", p, maxProcesses)
	case p.Threads < 1 || p.Processes*p.Threads > maxThreads:
		return fmt.Errorf("%s: use 1 to %d threads together", p, maxThreads)
	}
	return nil
}

// ParseSpreads reads "16x4" and the like, with commas between; "" is none.
func ParseSpreads(s string) ([]Spread, error) {
	var out []Spread
	for word := range strings.SplitSeq(s, ",") {
		if s == "" {
			break
		}
		left, right, _ := strings.Cut(strings.TrimSpace(word), "x")
		processes, err := strconv.Atoi(left)
		threads, err2 := strconv.Atoi(right)
		if err != nil || err2 != nil {
			return nil, fmt.Errorf("processes %q: use the number of processes and that of threads in each, as in %s", word, DefaultSpreads)
		}
		out = append(out, Spread{processes, threads})
	}
	return out, nil
}

const legendSpreads = "arms in several processes: the same with the threads spread over that many processes of this machine, each with sessions and a lock client of its own, so that clients contend in the database; all start at the same instant"

// arms are the bare update and the lock cycle in several processes.
func (p Spread) arms(c Config) []bench.Arm {
	bare, lock := CeilingArm(p.Threads, c.Contention), lockArm(c, p.Threads, c.TTLs[0])
	bare.ID, lock.ID, lock.Ceiling = "C/"+p.String(), fmt.Sprintf("L/%s/%s", p, lock.TTL), "C/"+p.String()
	for _, a := range []*bench.Arm{&bare, &lock} {
		a.Threads, a.Processes = p.Processes*p.Threads, p.Processes
		a.Name += fmt.Sprintf(" in %d %s", p.Processes, bench.Plural(p.Processes, "process", "processes"))
	}
	return []bench.Arm{bare, lock}
}

// hold is a lock as its holder saw it: from the instant at which it knew that the lock was
// granted to the last one at which it was certain to have it, by the machine's clock.
type hold struct {
	Token int64         `json:"t"`
	From  time.Duration `json:"f"`
	Until time.Duration `json:"u"`
	// Valid: it was certain, at From at least. A lease may end before its holder looks.
	Valid bool `json:"v"`

	grant   grant
	process int
}

// begun is the hold of a lease that was granted; now was read before.
func begun(g grant, now time.Duration) hold {
	return hold{Token: g.Token(), From: now, Until: now, Valid: g.Valid(), grant: g}
}

// lasted notes that a lease was certainly valid at an instant before, if it still is.
func (k *keyAudit) lasted(g grant, now time.Duration) {
	for i := len(k.holds) - 1; i >= 0; i-- {
		if h := &k.holds[i]; h.grant == g {
			if g.Valid() {
				h.Until, h.Valid = now, true
			}
			h.grant = nil
			return
		}
	}
}

// keyLine is what an agent's audit knows of a row.
type keyLine struct {
	Key        string   `json:"key"`
	Changes    int64    `json:"changes"`
	Doubts     int64    `json:"doubts,omitempty"`
	Violations []string `json:"violations,omitempty"`
	Holds      []hold   `json:"holds,omitempty"`
}

// auditLines are what an agent's audits know.
type auditLines struct {
	Bare   []keyLine `json:"bare"`
	Grants []keyLine `json:"grants"`
}

// Export implements bench.Joint.
func (s *Suite) Export() any { return auditLines{s.ceiling.audit.export(), s.cycles.audit.export()} }

func (a *audit) export() []keyLine {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := []keyLine{}
	for _, k := range a.keys {
		k.mu.Lock()
		out = append(out, keyLine{k.name, k.changes, k.doubts, k.violations, k.holds})
		k.mu.Unlock()
	}
	return out
}

// Import implements bench.Joint.
func (s *Suite) Import(all []json.RawMessage) error {
	for i, raw := range all {
		var lines auditLines
		if err := json.Unmarshal(raw, &lines); err != nil {
			return fmt.Errorf("the audit of process %d: %w", i+1, err)
		}
		s.ceiling.audit.add(i+1, lines.Bare)
		s.cycles.audit.add(i+1, lines.Grants)
	}
	s.cycles.audit.together()
	return nil
}

// add adds what a process knows.
func (a *audit) add(process int, lines []keyLine) {
	for _, l := range lines {
		k := a.key(l.Key)
		k.changes, k.doubts = k.changes+l.Changes, k.doubts+l.Doubts
		for _, v := range l.Violations {
			k.violations = append(k.violations, fmt.Sprintf("process %d: %s", process, v))
		}
		for _, h := range l.Holds {
			h.process = process
			k.holds = append(k.holds, h)
		}
	}
}

// together judges the holds of all processes.
func (a *audit) together() {
	for _, k := range a.keys {
		k.together()
	}
}

// together: every token was handed out once, and a holder was certain of its lock at no
// instant after which a later token was known to be granted. Of a lease that had ended
// before its holder looked, only the token is judged.
func (k *keyAudit) together() {
	slices.SortStableFunc(k.holds, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.From, b.From))
	})
	var last *hold // of those that were certain, the one that lasted longest
	for i := range k.holds {
		h := &k.holds[i]
		if i == 0 || k.holds[i-1].Token != h.Token {
			k.tokens = append(k.tokens, h.Token)
		} else if before := k.holds[i-1]; before.process != h.process {
			k.violate("token %d was handed out twice, by processes %d and %d", h.Token, before.process, h.process)
		}
		if !h.Valid {
			continue
		}
		// What one process did, it has judged itself.
		if last != nil && last.process != h.process && last.Token != h.Token && last.Until > h.From {
			if last.From > h.Until {
				k.violate("process %d was handed out token %d %s after process %d token %d", last.process, last.Token, last.From-h.From, h.process, h.Token)
			} else {
				k.violate("process %d holds it with token %d while process %d still does with token %d", h.process, h.Token, last.process, last.Token)
			}
		}
		if last == nil || h.Until > last.Until {
			last = h
		}
	}
}
