package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fencepost/systems/drive"
)

// TestMain is also the child of these tests.
func TestMain(m *testing.M) {
	if os.Getenv("LOCKS_TEST_CHILD") == "" {
		os.Exit(m.Run())
	}
	say := json.NewEncoder(os.Stdout)
	var late *request
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		switch r.Name {
		case "late": // answered after the next one
			late = &r
			continue
		case "never":
			continue
		case "wrong":
			fmt.Println("what?")
		case "refuse":
			_ = say.Encode(answer{ID: r.ID, Error: "not today"})
		case "die":
			fmt.Fprintln(os.Stderr, "out of memory")
			os.Exit(3)
		default:
			_ = say.Encode(answer{ID: r.ID, Done: true, Token: int64(r.Client), Holder: r.Attempt})
		}
		if late != nil {
			_ = say.Encode(answer{ID: late.ID, Done: true, Holder: late.Attempt})
			late = nil
		}
	}
	os.Exit(0)
}

// testFamily has this test's own binary as its child.
func testFamily(t *testing.T) *family {
	t.Setenv("LOCKS_TEST_CHILD", "1")
	return &family{program: os.Executable}
}

func (f *family) client(t *testing.T) drive.Locker {
	t.Helper()
	l, err := f.open(t.Context(), drive.Place{Nodes: []string{"127.0.0.1:1"}, Name: "test", TTL: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestChild(t *testing.T) {
	f := testFamily(t)
	a, b := f.client(t), f.client(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if taken, err := a.Renew(t.Context(), "late", "mine", time.Second); err != nil || !taken {
			t.Errorf("answered late: %t, %v", taken, err)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); f.waiting() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if token, taken, err := b.Acquire(t.Context(), "lock", "theirs", time.Second); err != nil || !taken || token != 2 {
		t.Errorf("the second client: %d, %t, %v", token, taken, err)
	}
	wg.Wait()
	if id, err := a.Holder(t.Context(), "lock"); err != nil || id != "" {
		t.Errorf("%q, %v", id, err)
	}
	if _, err := a.Release(t.Context(), "refuse", "mine"); err == nil || !strings.Contains(err.Error(), "not today") || errors.Is(err, drive.ErrGone) {
		t.Errorf("a refusal: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.Release(ctx, "never", "mine"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
	if left := f.waiting(); left > 0 {
		t.Errorf("%d requests are still waited for", left)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := b.Acquire(t.Context(), "lock", "theirs", time.Second); err != nil {
		t.Errorf("the other client is closed: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-f.child.Ended():
	default:
		t.Error("the child goes on")
	}
}

func (f *family) waiting() int {
	f.child.mu.Lock()
	defer f.child.mu.Unlock()
	return len(f.child.waiting)
}

// TestChildGone: every request to a child that has ended says how it did.
func TestChildGone(t *testing.T) {
	for name, want := range map[string]string{"die": "exit status 3); its last lines:\nout of memory", "wrong": `said "what?"`} {
		f := testFamily(t)
		a, b := f.client(t), f.client(t)
		for _, l := range []drive.Locker{a, b} {
			_, _, err := l.Acquire(t.Context(), name, "mine", time.Second)
			if !errors.Is(err, drive.ErrGone) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
			if err := l.Close(); !errors.Is(err, drive.ErrGone) {
				t.Errorf("%s, closed: %v", name, err)
			}
		}
	}
	missing := &family{program: func() (string, error) { return filepath.Join(t.TempDir(), "run"), nil }}
	if _, err := missing.open(t.Context(), drive.Place{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}
