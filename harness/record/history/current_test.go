package history

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write history.schema.json and the tables of docs/history-format.md")

const page = "../../../docs/history-format.md"

// TestSchemaIsCurrent: the schema is what the tables make of it.
func TestSchemaIsCurrent(t *testing.T) {
	have, err := os.ReadFile(schemaFile)
	switch want := Schema(); {
	case err != nil:
		t.Fatal(err)
	case bytes.Equal(have, want):
	case *update:
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the tables of this package make: make docs", schemaFile)
	}
}

// TestPageIsCurrent: so are the tables of the page.
func TestPageIsCurrent(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	have := string(b)
	want := have
	for name, table := range Tables() {
		begin, end := "<!-- "+name+": written by make docs from harness/record/history -->\n", "<!-- /"+name+" -->"
		before, rest, ok := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place between %q and %q", page, begin, end)
		}
		want = before + begin + "\n" + table + "\n" + end + after
	}
	switch {
	case have == want:
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the tables of this package say: make docs", page)
	}
}
