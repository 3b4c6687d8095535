package httpsinkd

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"fencepost/core/sink"
	httpsink "fencepost/core/sink/http"
)

// serviceEnv makes the test's executable the service.
const serviceEnv = "HTTPSINKD_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(serviceEnv) != "" {
		os.Exit(Main(os.Args[1:], os.Stderr, nil))
	}
	os.Exit(m.Run())
}

var serving = regexp.MustCompile(`msg=serving address=(\S+)`)

// start starts the service as a process of its own and returns its URL.
func start(t *testing.T, file string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "--listen=127.0.0.1:0", "--file="+file)
	cmd.Env = append(os.Environ(), serviceEnv+"=1")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // as a rule it has ended
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := serving.FindStringSubmatch(lines.Text()); m != nil {
			return cmd, "http://" + m[1]
		}
	}
	t.Fatalf("it ended: %v", cmd.Wait())
	return nil, ""
}

// A service that is killed while effects come in forgets nothing that it acknowledged, and
// ends in order when it is asked to.
func TestKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sink.db")
	cmd, url := start(t, file)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	acknowledged := map[string]int64{}
	enough := make(chan struct{})
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			s, err := httpsink.New(url, httpsink.Options{RequestTimeout: time.Second})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for i := int64(1); ; i++ {
				res, key := fmt.Sprintf("r%d", c), fmt.Sprintf("k%d", i)
				a, err := s.Accept(ctx, res, "l", i, sink.Effect{Key: key, Value: i})
				if err != nil {
					return // the service is gone and ctx over
				}
				mu.Lock()
				acknowledged[res+"/"+key] = a.Seq
				if len(acknowledged) == 200 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	stop()
	wg.Wait()

	cmd, url = start(t, file)
	s, err := httpsink.New(url, httpsink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found := map[string]int64{}
	for c := range 4 {
		res := fmt.Sprintf("r%d", c)
		l, err := s.Ledger(t.Context(), res)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range l {
			found[res+"/"+e.Key] = e.Seq
		}
	}
	for key, seq := range acknowledged {
		if found[key] != seq {
			t.Errorf("%s was acknowledged as %d and is %d", key, seq, found[key])
		}
	}
	if a, err := s.Accept(t.Context(), "r0", "l", 1, sink.Effect{Key: "late"}); err != nil || a.Result != sink.Stale {
		t.Errorf("the highest token is forgotten: %+v, %v", a, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("told to end: %v", err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "--file=PATH is needed"},
		{[]string{"--file=x", "y"}, exitUsage, "nothing but flags"},
		{[]string{"--fiel=x"}, exitUsage, "not defined: -fiel"},
		{[]string{"--help"}, 0, "idempotency key"},
		{[]string{"--file=" + dir}, exitFailed, "is a directory"},
		{[]string{"--file=" + filepath.Join(dir, "a"), "--listen=nowhere"}, exitFailed, "missing port"},
	} {
		var out bytes.Buffer
		if code := Main(c.args, &out, nil); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: %d %s; want %d %q", c.args, code, out.String(), c.code, c.want)
		}
	}
}
