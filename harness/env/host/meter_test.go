package host

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/record/history"
)

// measureEnv makes the test's executable a program that measures: it says that it has
// begun, and when its input ends what it found.
const measureEnv = "FENCEPOST_HOST_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(measureEnv) != "" {
		meter := Start()
		fmt.Println("measuring")
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = json.NewEncoder(os.Stdout).Encode(meter.Take())
		meter.Stop()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestSpread(t *testing.T) {
	t.Parallel()
	many := func(n int, lag time.Duration, more ...time.Duration) []time.Duration {
		out := more
		for range n {
			out = append(out, lag)
		}
		return out
	}
	for name, c := range map[string]struct {
		lags          []time.Duration
		p50, p99, max float64
	}{
		"nothing":         {nil, 0, 0, 0},
		"always in time":  {many(1000, 0), 0, 0, 0},
		"early is 0":      {many(10, -time.Millisecond), 0, 0, 0},
		"always late":     {many(1000, 2*time.Millisecond), 2, 2, 2},
		"one pause of 3s": {many(700, 0, 3*time.Second), 0, 2900, 3000}, // of 1000 instants 300 were in it
		"a short one":     {many(10_000, 0, 600*time.Millisecond), 0, 0, 600},
		"just too long":   {many(4940, 0, 600*time.Millisecond), 0, 100, 600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := spread(c.lags); got.LagP50MS != c.p50 || got.LagP99MS != c.p99 || got.LagMaxMS != c.max {
				t.Errorf("%+v, want %v %v %v", got, c.p50, c.p99, c.max)
			}
		})
	}
}

func TestSteal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]cpu{
		"cpu  10 1 5 80 2 0 1 7 3 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n": {106, 7},
		"cpu 1 2 3\n": {}, "": {}, "cpu a b c d e f g h i j\n": {},
	} {
		if got := parseCPU([]byte(text)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	if readCPU().total == 0 {
		t.Error("/proc/stat was not understood")
	}
}

// TestStoppedProcess: a harness that does not get the processor knows it.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), measureEnv+"=1")
	in, err := cmd.StdinPipe()
	must(t, err)
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	out := bufio.NewReader(pipe)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	const stopped = 800 * time.Millisecond
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() { // all threads
		t.Fatal(status, err)
	}
	time.Sleep(stopped) // what is measured
	must(t, cmd.Process.Signal(syscall.SIGCONT))
	must(t, in.Close())
	var got history.Host
	must(t, json.NewDecoder(out).Decode(&got))
	must(t, cmd.Wait())
	if least := float64((stopped - every).Milliseconds()); got.LagMaxMS < least || got.LagP99MS <= history.MaxLagMS {
		t.Errorf("%+v, want a lag of %v ms at least", got, least)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
