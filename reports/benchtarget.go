package reports

import "fmt"

// BenchTarget is a number that a benchmark was meant to reach.
type BenchTarget struct {
	Name string `json:"name"` // of what: "LWTs a job, 4 shards"
	Want string `json:"want"` // "at most 0.1"
	Got  string `json:"got"`  // "0.083 [0.081, 0.085]"
	// Met: the number, with all of its confidence interval, is as wanted.
	Met bool `json:"met"`
}

// Text is the target in a line.
func (t BenchTarget) Text() string {
	return fmt.Sprintf("%s  %s: %s, wanted %s", t.Verdict(), t.Name, t.Got, t.Want)
}

// badge is the verdict as a page shows it.
func (t BenchTarget) badge() verdictWord {
	if t.Met {
		return verdictWord{Word: t.Verdict(), Class: "pass", Icon: "check"}
	}
	return verdictWord{Word: t.Verdict(), Class: "invalid", Icon: "warn"}
}

// Verdict is PASS or MISS.
func (t BenchTarget) Verdict() string {
	if t.Met {
		return "PASS"
	}
	return "MISS"
}
