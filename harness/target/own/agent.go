package own

import (
	"bufio"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// Agent is a program's life as the fleet knows workers: it takes the commands of the
// control channel and answers for the program.
type Agent struct {
	control *Control
	life    string
	points  []control.Point
	conn    *control.Conn
	gate    *control.Gate
	once    sync.Once // ready

	cycles, stale, unknown, lost, operations atomic.Int64

	ended chan struct{} // the process is gone: the file grows no more
	wg    sync.WaitGroup
}

// Attach makes the agent of a life whose program is about to be started. file is its
// history, which has its header; theirs the program's end of the control channel. broken is
// called if the file turns out to be malformed. Close it when the process is gone.
func (c *Control) Attach(life, file string, points []control.Point, theirs *os.File, broken func(error)) (*Agent, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	header, err := headerOf(file)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	a := &Agent{control: c, life: life, points: points, conn: control.NewConn(theirs), ended: make(chan struct{})}
	a.gate = control.NewGate(a.conn.Send)
	c.mu.Lock()
	c.lives[life] = a
	c.mu.Unlock()
	a.wg.Go(a.commands)
	a.wg.Go(a.report)
	a.wg.Go(func() {
		defer f.Close()
		err := history.Follow(&tail{file: f, ended: a.ended}, file, a.count)
		// Whatever else is wrong with a file that was opened again follows from that.
		if now, e := headerOf(file); e == nil && now != header {
			err = &history.FormatError{File: file, Line: 1, Reason: "its header is gone, which the harness had written: open the file for appending"}
		}
		if err != nil {
			broken(err)
		}
	})
	return a, nil
}

// headerOf is the first line of a file.
func headerOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return line, err
}

// Close waits until everything that the program wrote has been read. The runner's end of
// the control channel must be closed.
func (a *Agent) Close() {
	close(a.ended)
	a.wg.Wait()
	a.control.mu.Lock()
	delete(a.control.lives, a.life)
	a.control.mu.Unlock()
}

// commands serves the runner until it closes the channel. Stopping is by signal, and
// clocks are the program's own.
func (a *Agent) commands() {
	defer a.conn.Close()
	for {
		m, err := a.conn.Receive()
		if err != nil {
			return
		}
		switch m.Cmd {
		case control.CmdArm:
			a.gate.Arm(m.ID, m.Point, m.Key)
		case control.CmdDisarm:
			a.gate.Disarm(m.ID)
		case control.CmdGo:
			a.gate.Go(m)
		}
	}
}

// count is what live progress wants of an event.
func (a *Agent) count(e *history.Event) {
	switch {
	case e.Type == history.Invoke:
		a.operations.Add(1)
	case e.Type == history.OK && e.Op == history.OpRelease:
		a.cycles.Add(1)
	case e.Type == history.Unknown:
		a.unknown.Add(1)
	case e.Result == "stale":
		a.stale.Add(1)
	case e.Type == history.Note && e.Op == history.NoteLeaseLost:
		a.lost.Add(1)
	}
}

// report sends totals five times a second.
func (a *Agent) report() {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-a.ended:
			return
		case <-t.C:
			_ = a.conn.Send(control.Message{Cmd: control.CmdStats, Stats: &control.Stats{
				Cycles: a.cycles.Load(), Stale: a.stale.Load(), Unknown: a.unknown.Load(), LeasesLost: a.lost.Load(), Operations: a.operations.Load(),
			}})
		}
	}
}

var errCutDown = errors.New("the file has become shorter")

// look is how long the end of a file that grows is left alone.
const look = 20 * time.Millisecond

// tail reads a file that grows, until its writer is gone.
type tail struct {
	file  *os.File
	at    int64
	ended <-chan struct{}
}

func (t *tail) Read(p []byte) (int, error) {
	for {
		over := false
		select {
		case <-t.ended:
			over = true
		default:
		}
		n, err := t.file.Read(p)
		t.at += int64(n)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if st, err := t.file.Stat(); err == nil && st.Size() < t.at {
			return 0, errCutDown
		}
		if over {
			return 0, io.EOF
		}
		select {
		case <-t.ended:
		case <-time.After(look):
		}
	}
}
