package bench

import (
	"fmt"
	"strings"

	"fencepost/reports"
)

// Claim is the comparison that a result's headline is made of.
type Claim = reports.BenchClaim

// headline makes that of the report; nil if the suite claims nothing, or the result does not
// support it.
func (r *Result) headline(report reports.BenchResult) (*reports.BenchHeadline, error) {
	if r.Claim == nil {
		return nil, nil
	}
	return report.Claim(*r.Claim)
}

// Setting says what an arm was, for a claim.
func (a Arm) Setting() string {
	var out []string
	if a.Shards > 0 {
		return fmt.Sprintf("%d %s", a.Shards, Plural(a.Shards, "shard", "shards"))
	}
	if a.Contention != "" {
		out = append(out, a.Contention+" contention")
	}
	return strings.Join(append(out, fmt.Sprintf("%d %s", a.Threads, Plural(a.Threads, "client", "clients"))), ", ")
}
