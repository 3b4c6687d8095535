package history

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTailReadsWhatIsWholeAndRecordedByNow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	head := func(proc string) string {
		return string(encode(t, header("r", proc, "b")))
	}
	note := func(proc string, ts int64) string {
		return fmt.Sprintf(`{"ts":%d,"proc":%q,"type":"note","op":"point","point":"holding"}`+"\n", ts, proc)
	}
	add := func(name, text string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	tail := NewTail(dir)
	places := func() string {
		t.Helper()
		h, err := tail.SoFar()
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range h.Events {
			out = append(out, fmt.Sprintf("%s:%d@%d", filepath.Base(e.File), e.Line, e.TS))
		}
		return strings.Join(out, " ")
	}
	if got := places(); got != "" {
		t.Errorf("of nothing: %s", got)
	}
	future := Now() + 1<<60
	whole := note("w1.1", 30)
	add("w1.1.jsonl", head("w1.1")+note("w1.1", 10)+note("w1.1", future)+whole[:20])
	add("w2.1.jsonl", "")
	if got := places(); got != "w1.1.jsonl:2@10" {
		t.Errorf("at first: %s", got)
	}
	add("w1.1.jsonl", whole[20:])
	add("w2.1.jsonl", head("w2.1")+note("w2.1", 20))
	if got := places(); got != "w1.1.jsonl:2@10 w2.1.jsonl:2@20 w1.1.jsonl:4@30" {
		t.Errorf("then: %s", got)
	}
	add("w2.1.jsonl", "no event\n")
	if _, err := tail.SoFar(); err == nil || !strings.Contains(err.Error(), "w2.1.jsonl:3") {
		t.Errorf("malformed: %v", err)
	}
}
