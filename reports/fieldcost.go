package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

const costHead = `
## What a lock costs

A cycle takes a lock and gives it back, with nothing in between: by 1 client that wants a lock of its own, and by 8 that all want
the same one. All servers run during the whole benchmark, and every arm in each of its rounds. Rates are medians of the rounds with
the 95 % confidence interval, CPU is processor time for 1000 cycles of clients and servers together, of the servers in brackets. Who does not
get a lock tries again later, as in runs, so that a rate of 8 clients is that of one lock, not of the store. ` + "`none`" + ` is a lock in the program's own
memory: what the harness takes, and part of all others but the core's. An acquire of etcd-mutex has two requests more here than its users',
which make its holder known. A twin with ` + "`-fenced`" + ` takes the same lock, so its cycle costs as much; schedulers have no lock cycle.
Rates belong to the machine; compare them with each other, and CPU rather than rates.

`

// Names of benchmarks and arms of the field (package bench/field).
const (
	fieldBench = "-bench-field"
	fieldAlone = "/1"
	fieldMany  = "/8"
)

// fieldCosts is the part of the page that the last benchmark of the field gives that may be quoted.
func fieldCosts(systems []system.System, benches []BenchResult) (string, error) {
	benches = slices.DeleteFunc(slices.Clone(benches), func(b BenchResult) bool { return !strings.HasSuffix(b.Name, fieldBench) || len(b.Problems) > 0 })
	if len(benches) == 0 {
		return "\n## What a lock costs\n\nNo benchmark of the field is kept: `make bench subject=field` makes one.\n", nil
	}
	last := slices.MaxFunc(benches, func(a, b BenchResult) int { return a.Started.Compare(b.Started) })
	all, err := last.Numbers()
	if err != nil {
		return "", err
	}
	find := func(id string) (ArmNumbers, bool) {
		i := slices.IndexFunc(all, func(n ArmNumbers) bool { return n.Arm.ID == id })
		if i < 0 {
			return ArmNumbers{}, false
		}
		return all[i], true
	}
	var names []string
	for _, n := range all {
		if name, alone := strings.CutSuffix(n.Arm.ID, fieldAlone); alone && n.Arm.Control == "" {
			names = append(names, name)
		}
	}
	var rows [][]string
	for _, name := range names {
		row := []string{"`" + name + "`", hasToken(systems, name)}
		for _, end := range []string{fieldAlone, fieldMany} {
			n, ok := find(name + end)
			if !ok {
				return "", fmt.Errorf("benchmark %s: no arm %s", last.Name, name+end)
			}
			row = append(row, costCells(n)...)
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	b.WriteString(costHead)
	table(&b, []string{"lock", "token", "1 client: cycles/s", "p50", "p99", "CPU s/1000", "8 clients: cycles/s", "p50", "p99", "CPU s/1000"}, rows)
	fmt.Fprintf(&b, "\nFrom `%s` of commit %s, whose rounds, copies and versions of servers are in [RESULTS.md](../RESULTS.md): `%s`. Machine: %s.\n",
		last.Name, last.Versions[evidence.CommitKey], last.Command, strings.Join(pairs(last.Machine), ", "))
	return b.String(), nil
}

// hasToken says whether a lock has a fencing token: then it has a twin whose sink checks it.
func hasToken(systems []system.System, name string) string {
	has := func(s system.System) bool {
		return s.Name == name+system.Fenced || s.Name == system.Core && name == system.Core
	}
	switch {
	case slices.ContainsFunc(systems, has):
		return "yes"
	case slices.ContainsFunc(systems, func(s system.System) bool { return s.Name == name }):
		return "no"
	}
	return ""
}

func costCells(n ArmNumbers) []string {
	cpu, store := n.Cost(CostCPU), n.Cost("store_cpu_s_per_1000")
	text := cmp.Or(costText(cpu.Estimate), costText(n.Cost("client_cpu_s_per_1000").Estimate))
	if store.N > 0 {
		text += fmt.Sprintf(" (%s)", RateText(store.Median))
	}
	rate := n.RateEstimate()
	return []string{
		fmt.Sprintf("%s [%s, %s]", RateText(rate.Median), RateText(rate.Low), RateText(rate.High)),
		measure.FormatDuration(n.Quantile(50)), measure.FormatDuration(n.Quantile(99)), text,
	}
}

func costText(e stat.Estimate) string {
	if e.N == 0 {
		return ""
	}
	return fmt.Sprintf("%s [%s, %s]", RateText(e.Median), RateText(e.Low), RateText(e.High))
}
