//go:build integration

package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// javaMain runs a program of testdata with the jars of a library until the test is over. It ends with its
// standard input.
func javaMain(t *testing.T, library, program string, args ...string) (lines <-chan string, ended <-chan error) {
	t.Helper()
	fetch := exec.CommandContext(t.Context(), "../../../scripts/fetch-store", library)
	fetch.Stderr = os.Stderr
	jars, err := fetch.Output()
	must(t, err)
	cmd := exec.Command("java", append([]string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(strings.TrimSpace(string(jars)), "*"), filepath.Join("testdata", program)}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said, done := make(chan string, 100), make(chan error, 1)
	go func() {
		for scan := bufio.NewScanner(out); scan.Scan(); {
			said <- scan.Text()
		}
		done <- cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		<-done
	})
	return said, done
}

// says waits for a program's next line.
func says(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(time.Minute):
		t.Fatal("it says nothing")
		return ""
	}
}

// gate is a proxy before a server. The first connection whose client sends a text stands still there.
type gate struct {
	net.Listener
	reached, opened chan struct{}
}

func openGate(t *testing.T, server, text string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	g := &gate{l, make(chan struct{}), make(chan struct{})}
	var once sync.Once
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(client, up); _ = client.Close() }()
			go func() {
				defer up.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := client.Read(buf)
					if err != nil {
						return
					}
					if bytes.Contains(buf[:n], []byte(text)) {
						once.Do(func() { close(g.reached); <-g.opened })
					}
					if _, err := up.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return g
}

// TestQuartz: quartz#107. A node reads a trigger, and its next statement, which takes that if it is still to be taken, is
// late. Meanwhile another node has fired it, and it is to be taken again, for the next hour. The first fires what it
// has read: an hourly job has two runs for one hour. With acquireTriggersWithinLock it has one.
func TestQuartz(t *testing.T) {
	for withinLock, want := range map[string]int{"false": 2, "true": 1} {
		t.Run("acquireTriggersWithinLock="+withinLock, func(t *testing.T) {
			server := startPostgres(t).Nodes[0]
			_, scheduled := javaMain(t, "quartz", "Firing.java", server, withinLock, "schedule")
			must(t, <-scheduled)
			g := openGate(t, server, "UPDATE QRTZ_TRIGGERS SET TRIGGER_STATE")
			late, _ := javaMain(t, "quartz", "Firing.java", g.Addr().String(), withinLock)
			if line := says(t, late); line != "started" {
				t.Fatalf("it says %q", line)
			}
			select {
			case <-g.reached:
			case <-time.After(20 * time.Second):
				t.Fatal("it takes no trigger")
			}
			other, _ := javaMain(t, "quartz", "Firing.java", server, withinLock)
			if line := says(t, other); line != "started" {
				t.Fatalf("it says %q", line)
			}
			var due []string
			collect := func(d time.Duration) {
				for until := time.After(d); ; {
					select {
					case line := <-late:
						due = append(due, line)
					case line := <-other:
						due = append(due, line)
					case <-until:
						return
					}
				}
			}
			collect(5 * time.Second)
			if len(due) != want-1 {
				t.Errorf("before the late node goes on: due at %q", due)
			}
			close(g.opened)
			collect(5 * time.Second)
			if len(due) != want || due[0] != due[len(due)-1] {
				t.Errorf("firings of one hour were due at %q, want %d", due, want)
			}
		})
	}
}
