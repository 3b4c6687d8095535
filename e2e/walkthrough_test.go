//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// walk are the sections of documents whose commands people type, in their order.
var walk = []struct{ file, heading string }{{"core/README.md", "## Try it"}, {"docs/core.md", "## Try it"}}

// step is a command of a document, and what it says that it prints; "" for whatever.
type step struct {
	where, command, prints string
}

// stepsOf reads the commands of a section.
func stepsOf(t *testing.T, file, heading string) (steps []step) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	inside, fenced := false, false
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = inside && line == "```console"
		case !fenced && strings.HasPrefix(line, "## "):
			inside = line == heading
		case fenced && strings.HasPrefix(line, "$ "):
			steps = append(steps, step{where: fmt.Sprintf("%s:%d", file, i+1), command: line[2:]})
		case fenced && len(steps) > 0:
			steps[len(steps)-1].prints += line + "\n"
		}
	}
	if len(steps) < 3 {
		t.Fatalf("%s: %d commands below %q: too few to be all", file, len(steps), heading)
	}
	return steps
}

// fits reports whether an output is as printed, where … stands for anything.
func (s step) fits(out string) bool {
	if s.prints == "" {
		return true
	}
	want := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(s.prints)), "…", "(?s:.*)")
	return regexp.MustCompile("^" + want + "$").MatchString(strings.TrimSpace(out))
}

// reads reports whether the command only asks, and so may be asked again.
func (s step) reads() bool {
	return strings.HasPrefix(s.command, "curl ") && !strings.Contains(s.command, "--json") && !strings.Contains(s.command, " -X ")
}

// shell is a bash that is told one command after the other.
type shell struct {
	in  io.Writer
	out *bufio.Reader
}

const over = "\x1e"

func newShell(t *testing.T) *shell {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash")
	cmd.Dir = root
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // the exit code of its last command
	})
	return &shell{in, bufio.NewReader(out)}
}

func (s *shell) run(t *testing.T, command string) (out string, code int) {
	t.Helper()
	if _, err := fmt.Fprintf(s.in, "%s\nprintf '%s%%d\\n' $?\n", command, over); err != nil {
		t.Fatal(err)
	}
	text, err := s.out.ReadString(over[0])
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, text)
	}
	last, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if code, err = strconv.Atoi(strings.TrimSpace(last)); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(text, over), code
}

// documented is the port that the documents name.
const documented = 8080

// freePorts is the first of n free ports: those of the documents, if they are.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for first := documented; first < documented+2000; first += 10 {
		free := true
		for i := range n {
			l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", first+i))
			if err != nil {
				free = false
				break
			}
			l.Close()
		}
		if free {
			return first
		}
	}
	t.Fatal("no free ports")
	return 0
}

var ownerNames = regexp.MustCompile(`"owner":"([^"]+)"`)

// TestWalkthrough types the commands of the documents, as they stand there, at three
// schedulers beside the cluster that is up, and finds what they say that is printed. Only
// `make up` and `make down` are left out: they bring the cluster, which is there.
func TestWalkthrough(t *testing.T) {
	const count = 3
	port := freePorts(t, count)
	began := time.Now()
	schedulers := exec.Command(filepath.Join(root, "bin", "fencepost"), "schedulers", "--count="+strconv.Itoa(count), "--port="+strconv.Itoa(port))
	out, err := schedulers.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	schedulers.Stderr = os.Stderr
	if err := schedulers.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		_ = schedulers.Process.Signal(syscall.SIGTERM)
		if err := schedulers.Wait(); err != nil {
			t.Errorf("the schedulers did not end in order: %v", err)
		}
	}
	t.Cleanup(end)
	lines := bufio.NewScanner(out)
	for n := range count {
		if !lines.Scan() {
			t.Fatal("the schedulers are not ready")
		}
		if want := fmt.Sprintf("s%d  http://127.0.0.1:%d/", n+1, port+n); !strings.HasPrefix(lines.Text(), want) {
			t.Fatalf("they say %q, want %q", lines.Text(), want)
		}
	}
	t.Logf("%.1f s: the schedulers are ready at port %d", time.Since(began).Seconds(), port)
	sh := newShell(t)
	// Nobody types within a second of `make up`.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		text, _ := sh.run(t, fmt.Sprintf("curl -s localhost:%d/api/v1/queues", port))
		if n := strings.Count(text, `"owner":"s`); n > 0 && n == strings.Count(text, `"shard":`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("shards without an owner: %s", text)
		}
	}
	t.Logf("%.1f s: all shards are owned", time.Since(began).Seconds())
	done := 0
	for _, part := range walk {
		for _, s := range stepsOf(t, part.file, part.heading) {
			if name, ok := strings.CutPrefix(s.command, "make "); ok {
				if name, _, _ = strings.Cut(name, " "); name != "up" && name != "down" {
					t.Errorf("%s: make %s is not run by this test", s.where, name)
				}
				continue
			}
			command := s.command
			for n := range count {
				command = strings.ReplaceAll(command, fmt.Sprint("localhost:", documented+n), fmt.Sprint("localhost:", port+n))
			}
			var text string
			for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
				var code int
				if text, code = sh.run(t, command); code != 0 {
					t.Fatalf("%s: %s: exit code %d: %s", s.where, command, code, text)
				}
				if s.fits(text) || !s.reads() || time.Now().After(deadline) {
					break
				}
			}
			if !s.fits(text) || strings.Contains(text, "urn:fencepost:problem") {
				t.Errorf("%s: $ %s\n%s\nwant\n%s", s.where, command, text, s.prints)
			}
			t.Logf("%.1f s: %s: %s", time.Since(began).Seconds(), s.where, strings.TrimSpace(text))
			done++
		}
	}
	if done < 10 {
		t.Errorf("only %d commands were run", done)
	}
	// The page that the first line tells to open, and what it is told.
	if text, _ := sh.run(t, fmt.Sprintf("curl -s localhost:%d/", port)); !strings.Contains(text, "<h1>Schedulers</h1>") {
		t.Errorf("the page is %.200s", text)
	}
	text, _ := sh.run(t, fmt.Sprintf("curl -s --max-time 4 localhost:%d/live/events || true", port))
	// It knows whoever owns a shard: who came last may have found none left.
	want := []string{`event: view`, `"self":"s1.`, `"outcome":"completed"`}
	shards, _ := sh.run(t, fmt.Sprintf("curl -s localhost:%d/api/v1/queues", port))
	owners := ownerNames.FindAllStringSubmatch(shards, -1)
	if len(owners) == 0 {
		t.Errorf("nobody owns a shard: %s", shards)
	}
	for _, o := range owners {
		want = append(want, fmt.Sprintf(`"name":"%s"`, o[1]))
	}
	for _, want := range want {
		if !strings.Contains(text, want) {
			t.Errorf("the page is not told %s:\n%.2000s", want, text)
		}
	}
	// What tries the stack in containers tries this one as well, but for its Prometheus.
	smoke := "PROMETHEUS= compose/smoke_test"
	for n := range count {
		smoke += fmt.Sprint(" http://localhost:", port+n)
	}
	if text, code := sh.run(t, smoke); code != 0 || !strings.HasSuffix(text, "smoke_test: ok\n") {
		t.Errorf("exit code %d: %s", code, text)
	}
	t.Logf("%.1f s: compose/smoke_test", time.Since(began).Seconds())
	end()
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %v", took)
	}
}

// TestSteps: the test above can fail, and types what is there.
func TestSteps(t *testing.T) {
	s := step{prints: `{"id":"…","state":"completed"}` + "\n"}
	if !s.fits(`{"id":"1-a","state":"completed"}`+"\n") || s.fits(`{"id":"1-a","state":"dlq"}`) || s.fits("") {
		t.Error("what is printed is not compared")
	}
	sh := newShell(t)
	if out, code := sh.run(t, "A=$(echo 5)"); out != "" || code != 0 {
		t.Errorf("%q %d", out, code)
	}
	if out, code := sh.run(t, "echo a$A; false"); out != "a5\n" || code != 1 {
		t.Errorf("%q %d", out, code)
	}
}
