package bench

import (
	"fmt"
	"strings"
	"time"

	"fencepost/reports"
	"fencepost/reports/measure"
)

// costWidth is how far the interval of an arm's cost may reach from its median when rounds
// need not go on.
const costWidth = 0.05

// rule says when rounds end that have a budget. It looks at how wide intervals are and never
// at where they lie: a rule that waited for a difference would find one.
func (p *Plan) rule() string {
	return fmt.Sprintf("rounds go on until the 95 %% interval of each gated cost of each arm reaches at most %.0f %% from its median, and that of the A/A copies' costs at most %.0f %% from their originals', or for %s; the rule looks at widths, never at where an interval lies",
		100*costWidth, 100*reports.CostNoise, measure.FormatDuration(p.Budget))
}

// round names a round.
func (p *Plan) round(n int) string {
	if p.Budget > 0 {
		return fmt.Sprintf("round %d", n)
	}
	return fmt.Sprintf("round %d/%d", n, p.Rounds)
}

// follow says how many rounds there will be.
func (p *Plan) follow() string {
	if p.Budget > 0 {
		return fmt.Sprintf("rounds follow for %s at most", p.Budget)
	}
	return fmt.Sprintf("%d rounds follow", p.Rounds)
}

// enough says whether a round need not begin, and notes why: what is known is known well
// enough, or the budget has no room for another one.
func (b *bench) enough(round int, took time.Duration) bool {
	done := round - 1 - len(b.result.Warmed.Cold)
	if b.plan.Budget == 0 || done < MinRounds {
		return false
	}
	wide, err := b.result.wide()
	if err != nil {
		b.result.Problem("costs so far: %v", err)
		return false
	}
	switch next := took / time.Duration(round); {
	case len(wide) == 0:
		b.result.Note("%d rounds: %s: narrow enough after %s", done, b.plan.rule(), measure.FormatDuration(took))
	case took+next > b.plan.Budget || done == mostRounds:
		b.result.Note("%d rounds: %s: the budget is over; still wide: %s", done, b.plan.rule(), strings.Join(wide, ", "))
	default:
		b.progress.Line("still wide: %s", atMostSome(wide))
		return false
	}
	return true
}

// atMostSome is a list for a line.
func atMostSome(all []string) string {
	const some = 3
	if len(all) <= some {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:some], ", "), len(all)-some)
}

// wide are the costs that are not known well enough yet.
func (r *Result) wide() (out []string, err error) {
	numbers, err := r.Numbers()
	if err != nil {
		return nil, err
	}
	for _, n := range numbers {
		for _, c := range n.Costs {
			if c.Gated && c.Width() > costWidth {
				out = append(out, fmt.Sprintf("%s of %s (%.0f %%)", c.ID, n.Arm.ID, 100*c.Width()))
			}
		}
	}
	for _, c := range reports.CopyCosts(numbers) {
		if c.Gated && c.Noisy() {
			out = append(out, fmt.Sprintf("%s of the A/A copies (%.0f %%)", c.ID, 100*c.Reach()))
		}
	}
	return out, nil
}
