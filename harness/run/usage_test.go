package run

import (
	"os"
	"os/exec"
	"testing"

	"fencepost/harness/record/history"
)

// TestUsageOf reads what real processes take: two more files are two more descriptors.
func TestUsageOf(t *testing.T) {
	t.Parallel()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	few, many := usageOfCat(t), usageOfCat(t, file, file)
	if few.Descriptors < 3 || many.Descriptors != few.Descriptors+2 {
		t.Errorf("%d descriptors, with two more files %d", few.Descriptors, many.Descriptors)
	}
	if few.Threads != 1 || few.MemoryKB < 64 || few.MemoryKB > 64<<10 {
		t.Errorf("%+v", few)
	}
	if _, ok := usageOf(0); ok {
		t.Error("no process")
	}
}

// usageOfCat is that of a process that has begun, as it answers, and when it is gone there is none.
func usageOfCat(t *testing.T, files ...*os.File) history.Usage {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.ExtraFiles = files
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte{'x'}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	u, ok := usageOf(cmd.Process.Pid)
	if !ok {
		t.Error("it cannot be read")
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if u, ok := usageOf(cmd.Process.Pid); ok {
		t.Errorf("a process that is gone: %+v", u)
	}
	return u
}
