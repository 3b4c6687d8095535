package sizing

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Assumptions are what a plan needs and nobody has measured here.
type Assumptions struct {
	// Peak is the highest rate by the mean one.
	Peak float64
	// Batch is how long a conditional batch takes, on a cluster that is not saturated.
	Batch time.Duration
	// ShardRate is how many jobs a second a shard is given at the peak.
	ShardRate float64
	// Partition is the most bytes that a shard's partition should have.
	Partition float64
	// Cores of a node, of which the part Used is for this at the peak.
	Cores, Used float64
	// Replicas of everything.
	Replicas float64
	// Spare is disk by what is stored, for compaction.
	Spare float64
	// Beat is how often an idle shard ticks.
	Beat time.Duration
	// KeepRuns is for how long the history of runs is kept.
	KeepRuns time.Duration
}

// Usual are the assumptions of docs/core.md.
func Usual() Assumptions {
	return Assumptions{Peak: 2, Batch: 12 * time.Millisecond, ShardRate: 180, Partition: 1 << 30, Cores: 16, Used: 0.5, Replicas: 3, Spare: 2,
		Beat: 10 * time.Second, KeepRuns: 14 * 24 * time.Hour}
}

// Need is what a load needs, at the peak unless said otherwise.
type Need struct {
	Daily  float64
	Window time.Duration // for which ids are remembered
	Rate   float64       // jobs a second
	Shards float64
	// LWTs a second, and for each job.
	LWTs, PerJob float64
	// NodeCores and OwnCores are busy; Nodes is how many nodes those are, at least as many
	// as there are replicas.
	NodeCores, OwnCores, Nodes float64
	// EffectLWTs and EffectNodes are LWTs and Nodes if each job has an effect in the Cassandra sink.
	EffectLWTs, EffectNodes float64
	// Network is in bytes a second that one node sends.
	Network float64
	// Partition is how many bytes of a shard are remembered jobs; Disk and RunsDisk are
	// of all nodes together, with what is spare.
	Partition, Disk, RunsDisk float64
}

// batches is how many batches a second a shard commits with so many jobs a second. A job
// takes three when it is alone: enqueue, claim, end. With more jobs the batches are shared, and
// there are never more than fit one after the other; nor fewer than full ones, nor than beats.
func (a Assumptions) batches(c Cost, rate float64) float64 {
	alone := math.Min(3*rate, 1/a.Batch.Seconds())
	return max(alone, rate*c.Job.LWTs, 1/a.Beat.Seconds())
}

// Plan says what so many jobs a day need, without effects, if their ids are remembered for
// a window.
func Plan(c Cost, a Assumptions, daily float64, window time.Duration) Need {
	n := Need{Daily: daily, Window: window, Rate: daily / 86400 * a.Peak}
	remembered := daily * window.Hours() / 24
	n.Shards = math.Ceil(max(n.Rate/a.ShardRate, remembered*c.Disk.Shards/a.Partition, 1))
	n.LWTs = n.Shards * a.batches(c, n.Rate/n.Shards)
	n.PerJob = n.LWTs / n.Rate
	// What a batch costs beside what is in it: an effect is one more of them.
	more := max(n.LWTs-n.Rate*c.Job.LWTs, 0) / c.Effect.SinkLWTs
	n.NodeCores = n.Rate*c.Job.NodeCPU + more*max(c.Effect.NodeCPU-c.Job.NodeCPU, 0)
	n.OwnCores = n.Rate*c.Job.OwnCPU + more*max(c.Effect.OwnCPU-c.Job.OwnCPU, 0)
	n.Nodes = max(math.Ceil(n.NodeCores/(a.Cores*a.Used)), a.Replicas)
	n.EffectLWTs = n.LWTs + n.Rate*c.Effect.SinkLWTs
	n.EffectNodes = max(math.Ceil((n.NodeCores+n.Rate*max(c.Effect.NodeCPU-c.Job.NodeCPU, 0))/(a.Cores*a.Used)), a.Replicas)
	n.Network = (n.Rate*c.Job.NetworkBytes + more*max(c.Effect.NetworkBytes-c.Job.NetworkBytes, 0)) / n.Nodes
	n.Partition = remembered * c.Disk.Shards / n.Shards
	n.Disk = remembered * c.Disk.Shards * a.Replicas * a.Spare
	n.RunsDisk = daily * a.KeepRuns.Hours() / 24 * c.Disk.Runs * a.Replicas * a.Spare
	return n
}

// loads are the columns of the table: jobs a day, and for how long they are remembered.
var loads = []struct {
	daily  float64
	name   string
	window time.Duration
}{{1e7, "10⁷", 24 * time.Hour}, {1e8, "10⁸", 24 * time.Hour}, {1e9, "10⁹", time.Hour}, {1e10, "10¹⁰", time.Hour}}

// Markdown is the section of docs/core.md: the costs, the assumptions, the plan.
func Markdown(c Cost, a Assumptions) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Measured on %s (`results/cost.jsonl`): %d nodes and the scheduler on one machine with %d cores, %d replicas, %d shards, 100 jobs in flight for each, payloads of %d bytes; %d jobs",
		c.Measured.Format(time.DateOnly), c.Nodes, c.Cores, c.Replicas, c.Shards, c.Payload, c.Job.Jobs)
	line("without an effect (%s a second), %d with one (%s a second). Nobody else was kept from the machine: times are upper bounds, counts and bytes are not touched by that.\n",
		number(float64(c.Job.Jobs)/c.Job.Seconds), c.Effect.Jobs, number(float64(c.Effect.Jobs)/c.Effect.Seconds))
	line("| a job at saturation | no effect | one effect |")
	line("|---|---|---|")
	for _, r := range []struct {
		name string
		of   func(Per) string
	}{
		{"LWTs on shards", func(p Per) string { return number(p.LWTs) }},
		{"LWTs on the sink", func(p Per) string { return number(p.SinkLWTs) }},
		{"other requests", func(p Per) string { return number(p.Plain) }},
		{"changes in batches", func(p Per) string { return number(p.Changes) }},
		{"bytes in batches", func(p Per) string { return size(p.BatchBytes) }},
		{"bytes that nodes send", func(p Per) string { return size(p.NetworkBytes) }},
		{"processor time of all nodes", func(p Per) string { return number(p.NodeCPU*1000) + " ms" }},
		{"processor time of the scheduler", func(p Per) string { return number(p.OwnCPU*1000) + " ms" }},
	} {
		line("| %s | %s | %s |", r.name, r.of(c.Job), r.of(c.Effect))
	}
	line("\nA completed job takes %s a replica in the table shards while its id is remembered, %s in the history of runs, and one with an effect %s in the sink.\n",
		size(c.Disk.Shards), size(c.Disk.Runs), size(c.Disk.Sink))
	line("## The paper path to ten billion jobs a day\n")
	line("What follows from these costs by arithmetic. Nothing of this size was run; what is not measured is marked as assumed.\n")
	line("| jobs a day |%s", cells(func(n Need, name string) string { return name }, c, a))
	line("|---|%s", strings.Repeat("---|", len(loads)))
	for _, r := range []struct {
		name string
		of   func(Need) string
	}{
		{"ids are remembered for (assumed)", func(n Need) string { return fmt.Sprintf("%.0f h", n.Window.Hours()) }},
		{fmt.Sprintf("jobs/s at the peak = mean × %s (assumed)", number(a.Peak)), func(n Need) string { return number(n.Rate) }},
		{"shards", func(n Need) string { return number(n.Shards) }},
		{"of which each gets jobs/s", func(n Need) string { return number(n.Rate / n.Shards) }},
		{"LWTs/s", func(n Need) string { return number(n.LWTs) }},
		{"LWTs a job", func(n Need) string { return number(n.PerJob) }},
		{"busy cores of nodes", func(n Need) string { return number(n.NodeCores) }},
		{fmt.Sprintf("nodes of %s cores, %s %% busy (assumed)", number(a.Cores), number(100*a.Used)), func(n Need) string { return number(n.Nodes) }},
		{"LWTs/s with an effect for each job", func(n Need) string { return number(n.EffectLWTs) }},
		{"nodes with an effect for each job", func(n Need) string { return number(n.EffectNodes) }},
		{"busy cores of schedulers", func(n Need) string { return number(n.OwnCores) }},
		{"a node sends", func(n Need) string { return size(n.Network) + "/s" }},
		{"remembered jobs of a shard", func(n Need) string { return size(n.Partition) }},
		{fmt.Sprintf("their disk, all nodes, × %s replicas × %s (assumed)", number(a.Replicas), number(a.Spare)), func(n Need) string { return size(n.Disk) }},
		{fmt.Sprintf("disk of the history of runs, %.0f days", a.KeepRuns.Hours()/24), func(n Need) string { return size(n.RunsDisk) }},
	} {
		line("| %s |%s", r.name, cells(func(n Need, _ string) string { return r.of(n) }, c, a))
	}
	line("\nHow it is computed: shards = the most of jobs/s ÷ %s (half of what one shard did at saturation; measured) and remembered bytes ÷ %s (assumed). A shard commits min(3 × jobs/s, 1 ÷ %d ms)",
		number(a.ShardRate), size(a.Partition), a.Batch.Milliseconds())
	line("batches a second: three for a job that is alone, one after the other (measured: `one job at a time` in [RESULTS.md](../RESULTS.md)), but at least the table's at saturation, and one every %.0f s.", a.Beat.Seconds())
	line("A batch more costs what an effect costs more (measured). Cores are taken to be as fast as the measured machine's, and disks not to be the bottleneck (assumed).")
	return b.String()
}

func cells(of func(Need, string) string, c Cost, a Assumptions) string {
	var b strings.Builder
	for _, l := range loads {
		fmt.Fprintf(&b, " %s |", of(Plan(c, a, l.daily, l.window), l.name))
	}
	return b.String()
}

// number shows three digits at most.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return fmt.Sprintf("%.3f", v)
	case v < 10:
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	case v < 1000:
		return fmt.Sprintf("%.0f", v)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	digits := fmt.Sprintf("%.0f", math.Round(v/unit)*unit)
	var b strings.Builder
	for n, d := range digits {
		if n > 0 && (len(digits)-n)%3 == 0 {
			b.WriteString(" ") // as in RESULTS.md
		}
		b.WriteRune(d)
	}
	return b.String()
}

// size shows bytes.
func size(v float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	n := 0
	for ; v >= 1000 && n < len(units)-1; n++ {
		v /= 1000
	}
	if n == 0 || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[n])
	}
	return fmt.Sprintf("%.3g %s", v, units[n])
}
