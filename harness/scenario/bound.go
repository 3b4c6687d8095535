package scenario

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bound is a time that follows from the lease time, so that it stays right when the run
// has another one: "2.25 ttl + 5s", "1 ttl", "8s".
type Bound struct {
	TTLs float64
	Plus time.Duration
}

// D is the bound in a run with that ttl, in whole milliseconds.
func (b Bound) D(ttl time.Duration) time.Duration {
	return (time.Duration(b.TTLs*float64(ttl)) + b.Plus).Round(time.Millisecond)
}

// UnmarshalYAML reads a sum of multiples of ttl and durations, none of them negative.
func (b *Bound) UnmarshalYAML(n *yaml.Node) error {
	*b = Bound{}
	for term := range strings.SplitSeq(n.Value, "+") {
		term = strings.TrimSpace(term)
		if times, ok := strings.CutSuffix(term, "ttl"); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(times), 64)
			if err != nil || f <= 0 || f > 1000 {
				return lineErr(n, "%q is not a number of ttl (such as 2.25 ttl)", term)
			}
			b.TTLs += f
			continue
		}
		d, err := time.ParseDuration(term)
		switch {
		case err != nil:
			return lineErr(n, "%q is not a duration (such as 250ms, 2.25 ttl, or 2.25 ttl + 5s)", term)
		case d < 0:
			return lineErr(n, "duration %s is negative", term)
		case d%time.Millisecond != 0:
			return lineErr(n, "%s is not a number of whole milliseconds", term)
		}
		b.Plus += d
	}
	return nil
}

// MarshalYAML writes it as it is read.
func (b Bound) MarshalYAML() (any, error) { return b.String(), nil }

// String is the bound as it is read.
func (b Bound) String() string {
	ttls := strconv.FormatFloat(b.TTLs, 'g', -1, 64) + " ttl"
	switch {
	case b.TTLs == 0:
		return b.Plus.String()
	case b.Plus == 0:
		return ttls
	}
	return ttls + " + " + b.Plus.String()
}

// IsZero: nothing is said.
func (b Bound) IsZero() bool { return b == Bound{} }
