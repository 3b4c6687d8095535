package system

import (
	"fmt"
	"sort"
	"strings"

	"fencepost/checker"
)

// Core is the production lock client and sink.
const Core = "core"

// System is what a run drives.
type System struct {
	Name  string // core, broken/NAME
	About string
	// Binary is the worker's executable, beside the tool's own.
	Binary string
	// Variant is the known-broken variant that the worker takes on, "" for none.
	Variant string
	// LinksInert (a broken harness): faults on links are never put in force.
	LinksInert bool
	// Red says how a known-broken variant must be found; nil for a sound system.
	Red *Red
}

// Red is the directed run that must expose a variant.
type Red struct {
	Scenario   string
	Contention string
	Verdict    checker.Verdict
	// Properties: at least one of them must fail (be invalid, for INVALID).
	Properties []string
}

var core = System{Name: Core, About: "the production lock client and fenced sink on Cassandra", Binary: "worker"}

const broken = "broken/"

// variants are the known-broken ones.
var variants = []System{
	{
		Name: broken + "sink-no-token-check", About: "the sink accepts an effect whatever its fencing token",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P3", "P4"}},
	},
	{
		Name: broken + "hilo-tokens", About: "fencing tokens come from Hi/Lo id blocks of each process, not from the lock's row",
		Red: &Red{Scenario: "kill-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P1"}},
	},
	{
		Name: broken + "takeover-plain-write", About: "a takeover reads the row and then writes it without a condition",
		Red: &Red{Scenario: "pause-worker", Contention: "high", Verdict: checker.Fail, Properties: []string{"P1", "P2"}},
	},
	{
		Name: broken + "renew-failure-ignored", About: "a holder whose renewals fail goes on as if it still held the lock",
		Red: &Red{Scenario: "partition-client", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P7"}},
	},
	{
		Name: broken + "trust-from-answer", About: "a holder counts its lease from the answer of the last resend instead of the first send",
		Red: &Red{Scenario: "lost-replies", Contention: "medium", Verdict: checker.Fail, Properties: []string{"P7", "P8"}},
	},
	{
		Name: broken + "harness-links-inert", About: "the harness says that it cut links but never does", LinksInert: true,
		Red: &Red{Scenario: "partition", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}},
	},
	{
		Name: broken + "recorder-drops", About: "the recorder loses every 50th operation",
		Red: &Red{Scenario: "steady", Contention: "medium", Verdict: checker.Invalid, Properties: []string{"P14"}},
	},
}

// Broken lists the known-broken variants.
func Broken() []System {
	out := make([]System, len(variants))
	for i, v := range variants {
		v.Binary = "worker"
		if !v.LinksInert {
			v.Binary, v.Variant = "worker-broken", strings.TrimPrefix(v.Name, broken)
		}
		out[i] = v
	}
	return out
}

// Find returns a system by name.
func Find(name string) (System, error) {
	if name == "" || name == Core {
		return core, nil
	}
	names := []string{Core}
	for _, v := range Broken() {
		if v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	sort.Strings(names[1:])
	return System{}, fmt.Errorf("unknown system %q; there are: %s", name, strings.Join(names, ", "))
}
