package reports

import (
	"slices"

	"fencepost/reports/stat"
)

// BenchCost is what the operations of a round took beside time: totals from the first
// operation until all had ended, or, of an arm that was under load before and after its
// window, within it.
type BenchCost struct {
	// Ops is how many operations ended ok meanwhile.
	Ops int64 `json:"ops"`
	// Spent is by the name of what was spent, as in BenchSpent. What could not be read is
	// not in it.
	Spent map[string]float64 `json:"spent"`
}

// BenchLoad is who kept the processors busy within a round's window, in cores.
type BenchLoad struct {
	Own    float64 `json:"own"`   // the benchmark's own process
	Nodes  float64 `json:"nodes"` // the database's
	Other  float64 `json:"other"` // everybody else
	Stolen float64 `json:"stolen"`
}

// ForeignCores are how many cores others may keep busy within a window before it is
// marked: rates and latencies of that window are not the machine's.
const ForeignCores = 0.2

// Disturbed says that a window is to be marked.
func (l *BenchLoad) Disturbed() bool {
	return l != nil && l.Other+l.Stolen > ForeignCores
}

// CostNoise is how far the interval of copies' costs, by those of their originals, may reach from 1
// before the quantity is not to be quoted.
const CostNoise = 0.10

// What operations spend.
const (
	SpentClientCPU    = "client_cpu_s"    // of the processes that ask, in s of processor time
	SpentSchedulerCPU = "scheduler_cpu_s" // of scheduler processes, where they are apart
	SpentStoreCPU     = "store_cpu_s"     // of the database's nodes
	SpentLWTs         = "lwts"            // conditional requests and SERIAL reads sent, those of the sink too
	SpentRequests     = "requests"        // round trips to the store, LWTs among them
	SpentNetBytes     = "net_bytes"       // that the nodes received and sent; those among them count at both ends
	SpentDiskBytes    = "disk_bytes"      // that nodes wrote to storage
	SpentPeakBytes    = "peak_bytes"      // the most memory that one process had at a time
	SpentSyncs        = "syncs"           // fsync, fdatasync and msync calls of the nodes
)

// BenchQuantity is a quantity for each operation. Costs repeat from run to run where
// rates do not: what disturbs the machine makes an operation slow, not dear.
type BenchQuantity struct {
	ID, Head, About string
	// Of are the names of what is added up, the first of which must have been read, Times
	// the number of operations it is for.
	Of    []string
	Times float64
	// Gated: copies of arms must cost what the arms do, or nothing is to be quoted.
	Gated bool
}

// BenchQuantities are all of them, the order that of tables.
var BenchQuantities = []BenchQuantity{
	{ID: "cpu_s_per_1000", Head: "CPU s/1000", About: "processor time of all processes for 1000 operations, in s", Times: 1000, Gated: true,
		Of: []string{SpentStoreCPU, SpentClientCPU, SpentSchedulerCPU}},
	{ID: "client_cpu_s_per_1000", Head: "client", About: "that of the clients", Times: 1000, Of: []string{SpentClientCPU}},
	{ID: "scheduler_cpu_s_per_1000", Head: "scheduler", About: "that of scheduler processes", Times: 1000, Of: []string{SpentSchedulerCPU}},
	{ID: "store_cpu_s_per_1000", Head: "store", About: "that of the nodes", Times: 1000, Of: []string{SpentStoreCPU}},
	{ID: "lwt_per_op", Head: "LWTs/op", About: "conditional requests and SERIAL reads, those of the sink too", Times: 1, Gated: true, Of: []string{SpentLWTs}},
	{ID: "requests_per_op", Head: "requests/op", About: "round trips to the store", Times: 1, Gated: true, Of: []string{SpentRequests}},
	{ID: "net_bytes_per_op", Head: "net bytes/op", About: "bytes that the nodes received and sent; those among them count at both ends", Times: 1, Gated: true, Of: []string{SpentNetBytes}},
	{ID: "bytes_per_op", Head: "disk bytes/op", About: "bytes that nodes wrote to storage; they write them in bursts", Times: 1, Of: []string{SpentDiskBytes}},
	{ID: "fsync_per_op", Head: "fsyncs/op", About: "fsync, fdatasync and msync calls of the nodes", Times: 1, Of: []string{SpentSyncs}},
	{ID: "peak_bytes_per_op", Head: "peak bytes/op", About: "the most memory that one process had at a time, by the operations that it was for", Times: 1, Of: []string{SpentPeakBytes}},
}

// per is the quantity of one round; ok is false if nothing of it could be read.
func (q BenchQuantity) per(c *BenchCost) (v float64, ok bool) {
	if c == nil || c.Ops == 0 {
		return 0, false
	}
	if _, ok = c.Spent[q.Of[0]]; !ok {
		return 0, false
	}
	for _, name := range q.Of {
		v += c.Spent[name]
	}
	return v * q.Times / float64(c.Ops), true
}

// CostNumbers is a quantity of an arm over its rounds.
type CostNumbers struct {
	BenchQuantity
	stat.Estimate
	// ToCopied is the quantity by that of the arm that this is a copy of, in the same round.
	ToCopied stat.Estimate

	rounds map[int]float64
}

// CopyCost is a quantity of all copies by that of the arms that they copy, in the same rounds: how
// far two equal things are apart.
type CopyCost struct {
	BenchQuantity
	stat.Estimate
}

// Noisy says that two equal things may cost so different that nothing is to be quoted.
func (c CopyCost) Noisy() bool { return c.Reach() > CostNoise }

// CopyCosts are those quantities that were read of a copy and its original.
func CopyCosts(ns []ArmNumbers) (out []CopyCost) {
	for _, q := range BenchQuantities {
		if c := q.copies(ns); c.N > 0 {
			out = append(out, c)
		}
	}
	return out
}

// copies is the quantity of all copies; N is 0 if it was not read.
func (q BenchQuantity) copies(ns []ArmNumbers) CopyCost {
	var ratios []float64
	for _, n := range ns {
		for _, o := range ns {
			if n.Arm.Control == o.Arm.ID {
				of, _ := stat.Ratios(n.Cost(q.ID).rounds, o.Cost(q.ID).rounds)
				ratios = append(ratios, of...)
			}
		}
	}
	return CopyCost{q, stat.PairedOf(ratios)}
}

// costs are those quantities of which something was read.
func (a BenchArm) costs() (out []CostNumbers) {
	for _, q := range BenchQuantities {
		n := CostNumbers{BenchQuantity: q, rounds: map[int]float64{}}
		var all []float64
		for _, r := range a.Rounds {
			if v, ok := q.per(r.Cost); ok {
				n.rounds[r.Round] = v
				all = append(all, v)
			}
		}
		if n.Estimate = stat.EstimateOf(all); n.N > 0 {
			out = append(out, n)
		}
	}
	return out
}

// Cost is the quantity of that ID; N is 0 if it was not read.
func (n ArmNumbers) Cost(id string) CostNumbers {
	i := slices.IndexFunc(n.Costs, func(c CostNumbers) bool { return c.ID == id })
	if i < 0 {
		return CostNumbers{}
	}
	return n.Costs[i]
}

// By compares the quantity with that of another arm, in the same rounds; N is 0 if one of them
// was not read.
func (c CostNumbers) By(other CostNumbers) stat.Estimate {
	ratios, _ := stat.Ratios(c.rounds, other.rounds)
	return stat.EstimateOf(ratios)
}

// DearerThan is how many times as much processor time an operation takes as one of another arm in the same
// round, if the nodes do the same for both: by their parts of it. N is 0 if that of nodes or clients was not
// read. Both parts are of one window, so it does not matter how much the machine did in it: where
// two equal arms differ by 10 % in their processor time, their parts differ by 1 %.
func (n ArmNumbers) DearerThan(other ArmNumbers) stat.Estimate {
	ratios, _ := stat.Ratios(other.storePart(), n.storePart())
	return stat.EstimateOf(ratios)
}

// storePart is the nodes' part of the processor time, by round.
func (n ArmNumbers) storePart() map[int]float64 {
	part, client := map[int]float64{}, n.Cost(CostClient).rounds
	for round, store := range n.Cost(CostStore).rounds {
		if client[round] > 0 {
			part[round] = store / (store + client[round])
		}
	}
	return part
}
