// Package verdict has the words for the outcome of a run. The checker says one, a
// known-broken variant names the one that it must get, and CI goes by its exit code.
package verdict

// Verdict is the outcome of a run. Only Pass exits 0.
type Verdict string

// Verdicts, in the order in which they win: FAIL > INVALID > UNKNOWN > PASS.
const (
	Fail    Verdict = "FAIL"    // a property is violated
	Invalid Verdict = "INVALID" // the run tested too little: a fault did not take effect, too few operations
	Unknown Verdict = "UNKNOWN" // a check did not finish
	Pass    Verdict = "PASS"    // no violation found in a run that could have shown one
)

// ExitCode is the tool's exit code for the verdict.
func (v Verdict) ExitCode() int {
	switch v {
	case Pass:
		return 0
	case Fail:
		return 1
	case Invalid:
		return 3
	}
	return 4
}

// Worst returns the verdict that wins.
func Worst(v, w Verdict) Verdict {
	for _, x := range []Verdict{Fail, Invalid, Unknown} {
		if v == x || w == x {
			return x
		}
	}
	return Pass
}
