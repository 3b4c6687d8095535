package bench

import (
	"errors"
	"time"

	"github.com/prometheus/procfs"

	"fencepost/reports"
)

// spent is what was spent so far, by the names of [reports.BenchCost]. What cannot be read
// is not in it: a process that is gone, a node on another machine.
type spent map[string]float64

// spent reads what the clients and the nodes have used so far, each from the kernel's
// account of the process and none from what it says of itself, and what the operator has
// sent.
func (w Window) spent(t Traffic) spent {
	out := spent{}
	if clients, err := w.clientTime(); err == nil {
		out[reports.SpentClientCPU] = clients.Seconds()
	}
	t.spentIn(out)
	if n, ok := w.syncs.total(); ok {
		out[reports.SpentSyncs] = n
	}
	nodes, err := readNodes(w.PIDs)
	if err == nil && len(w.PIDs) > 0 {
		for name, v := range nodes {
			out[name] = v
		}
	}
	return out
}

// clientTime is the processor time of the clients' processes, this one among them.
func (w Window) clientTime() (time.Duration, error) {
	own, err := ownTime()
	others, othersErr := timeOf(w.Clients)
	return own + others, errors.Join(err, othersErr)
}

// spentIn says how many requests were sent, if any was.
func (t Traffic) spentIn(s map[string]float64) {
	if sent := t.LWTs + t.SinkLWTs; sent+t.Plain > 0 {
		s[reports.SpentLWTs], s[reports.SpentRequests] = float64(sent), float64(sent+t.Plain)
	}
}

// since is what was spent between two readings. What only one of them has is not known.
func (s spent) since(before spent, ops int64) *reports.BenchCost {
	c := reports.BenchCost{Ops: ops, Spent: map[string]float64{}}
	for name, v := range s {
		first, ok := before[name]
		// Of requests the first reading has none if there were none yet.
		if ok || name == reports.SpentLWTs || name == reports.SpentRequests {
			c.Spent[name] = v - first
		}
	}
	return &c
}

// readNodes reads the processes of the nodes. An error means that one is gone.
func readNodes(pids []int) (spent, error) {
	busy, err := timeOf(pids)
	if err != nil {
		return nil, err
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	out, networks := spent{reports.SpentStoreCPU: busy.Seconds()}, map[uint32]procfs.Proc{}
	for _, pid := range pids {
		p, err := proc.Proc(pid)
		if err != nil {
			return nil, err
		}
		io, err := p.IO()
		if err != nil {
			return nil, err
		}
		spaces, err := p.Namespaces()
		if err != nil {
			return nil, err
		}
		out[reports.SpentDiskBytes] += float64(io.WriteBytes) - float64(io.CancelledWriteBytes)
		networks[spaces["net"].Inode] = p
	}
	for _, p := range networks {
		devices, err := p.NetDev()
		if err != nil {
			return nil, err
		}
		if len(networks) > 1 {
			delete(devices, "lo") // a node that talks to itself
		}
		all := devices.Total()
		out[reports.SpentNetBytes] += float64(all.RxBytes + all.TxBytes)
	}
	return out, nil
}
