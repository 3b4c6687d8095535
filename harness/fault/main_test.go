package fault

import (
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"fencepost/core/clock"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/workload"
)

// TestMain is a worker if it is started as one: a process with a worker's clocks. Or it is
// a service that answers anything, or a program of a user's own.
func TestMain(m *testing.M) {
	osproc.Init()
	if os.Getenv("FENCEPOST_TASK") != "" {
		os.Exit(busyProgram())
	}
	if env := os.Getenv(workload.ConfigEnv); env != "" {
		os.Exit(testWorker(env))
	}
	if addr := os.Getenv(serviceEnv); addr != "" {
		os.Exit(testService(addr))
	}
	goleak.VerifyTestMain(m)
}

// serviceEnv holds the address of a test binary that is a service.
const serviceEnv = "FENCEPOST_TEST_SERVICE"

func testService(addr string) int {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return 2
	}
	for {
		c, err := ln.Accept()
		if err != nil {
			return 3
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c) // ends with the connection
		}()
	}
}

// deaf is a worker whose clocks stay as they are, whatever it is told.
const deaf = "deaf"

func testWorker(env string) int {
	cfg, err := workload.ParseConfig(env)
	if err != nil {
		return 2
	}
	conn, err := control.Inherited()
	if err != nil {
		return 3
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		os.Exit(0)
	}()
	clk := workload.NewClock(clock.System())
	ticks := workload.NewMetronome(clk, conn.Send)
	_ = conn.Send(control.Message{Cmd: control.CmdReady})
	for {
		m, err := conn.Receive()
		if err != nil {
			return 4
		}
		switch m.Cmd {
		case control.CmdClock:
			if m.Clock != nil && cfg.Variant != deaf {
				clk.Set(*m.Clock)
			}
			_ = conn.Send(control.Message{Cmd: control.CmdClock, Reading: &control.Reading{At: history.Now(), Lease: clk.Now(), Awake: clk.Awake()}})
		case control.CmdTick:
			ticks.Set(m.Every)
		}
	}
}
