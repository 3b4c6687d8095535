package exetest

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// TestBusy: what is written can be executed at once, whatever other tests start.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	var others sync.WaitGroup
	defer others.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	for i := range 300 {
		path := filepath.Join(dir, strconv.Itoa(i))
		Write(t, path, "#!/bin/sh\n")
		if err := exec.Command(path).Run(); err != nil {
			t.Fatal(err)
		}
	}
}
