package host

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"fencepost/harness/record/history"
)

// every is how long the meter sleeps. A sleep that lasts longer is late by the rest.
const every = 10 * time.Millisecond

// Meter measures until it is stopped.
type Meter struct {
	mu   sync.Mutex
	at   time.Time       // when the sleep that lasts began
	lags []time.Duration // of the sleeps since the last Take
	cpu  cpu
	stop chan struct{}
	done chan struct{}
}

// Start starts a meter.
func Start() *Meter {
	m := &Meter{at: time.Now(), cpu: readCPU(), stop: make(chan struct{}), done: make(chan struct{})}
	go m.run()
	return m
}

func (m *Meter) run() {
	defer close(m.done)
	t := time.NewTimer(every)
	defer t.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-t.C:
		}
		m.mu.Lock()
		m.note()
		m.mu.Unlock()
		t.Reset(every)
	}
}

// note ends the sleep that lasts.
func (m *Meter) note() {
	now := time.Now() // by the monotonic clock, which goes on while this process is stopped
	m.lags = append(m.lags, now.Sub(m.at)-every)
	m.at = now
}

// Take returns what was measured since the last Take, or the start.
func (m *Meter) Take() history.Host {
	m.mu.Lock()
	m.note() // it may be late already
	lags := m.lags
	m.lags = nil
	m.mu.Unlock()
	out := spread(lags)
	now := readCPU()
	if total := now.total - m.cpu.total; total > 0 && now.steal >= m.cpu.steal {
		out.Steal = float64(now.steal-m.cpu.steal) / float64(total)
	}
	m.cpu = now
	return out
}

// Stop ends the measuring. It may be called again.
func (m *Meter) Stop() {
	select {
	case <-m.done:
	default:
		close(m.stop)
		<-m.done
	}
}

// spread weighs lags by the time that they took: a process that wanted the processor at some
// instant of a pause would have waited for the rest of it. Else a pause of 3 s in a
// phase of 10 were one sample among 700.
func spread(lags []time.Duration) history.Host {
	var waits []float64
	for _, lag := range lags {
		for ; ; lag -= every {
			waits = append(waits, float64(max(lag, 0).Microseconds())/1e3)
			if lag <= every {
				break
			}
		}
	}
	if len(waits) == 0 {
		return history.Host{}
	}
	slices.Sort(waits)
	at := func(q int) float64 { return waits[(len(waits)*q+99)/100-1] }
	return history.Host{LagP50MS: at(50), LagP99MS: at(99), LagMaxMS: waits[len(waits)-1]}
}

// cpu are the processors' times so far, in ticks.
type cpu struct{ total, steal int64 }

// readCPU reads /proc/stat; all zero where there is none.
func readCPU() cpu {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpu{}
	}
	return parseCPU(b)
}

// parseCPU: cpu user nice system idle iowait irq softirq steal guest guest_nice; the
// last two are in user and nice already.
func parseCPU(stat []byte) (c cpu) {
	line, _, _ := bytes.Cut(stat, []byte{'\n'})
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return cpu{}
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return cpu{}
		}
		c.total += n
		if i == 7 {
			c.steal = n
		}
	}
	return c
}
