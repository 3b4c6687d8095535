package bench

import (
	"slices"

	"github.com/prometheus/procfs"
)

// Tree are processes with all that descend from them, as they are now.
func Tree(roots ...int) ([]int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, p := range all {
		if stat, err := p.Stat(); err == nil { // else it has ended
			children[stat.PPID] = append(children[stat.PPID], p.PID)
		}
	}
	pids := slices.Clone(roots)
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids, nil
}
