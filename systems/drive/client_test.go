package drive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestGone: a lock that can do nothing any more ends its client at once. After any other error a request is
// sent again, and its outcome is unknown.
func TestGone(t *testing.T) {
	t.Setenv("FENCEPOST_TTL_MS", "6000")
	file, err := os.Create(filepath.Join(t.TempDir(), "history"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := &client{lock: Lock{Unseen: []string{"acquire-sent"}}, actor: &actor{record: &record{life: "w1.1", file: file}, proc: "w1.1/c1"}}
	for _, k := range []struct {
		says  error
		sends int
		gone  bool
	}{
		{fmt.Errorf("%w: it ended", ErrGone), 1, true},
		{errors.New("no answer"), sends, false},
	} {
		asked := 0
		_, done, err := c.change("acquire", "lock", absent(), version{}, func(context.Context) (bool, error) {
			asked++
			return false, k.says
		})
		if done || asked != k.sends || errors.Is(err, ErrGone) != k.gone || !k.gone && err != nil {
			t.Errorf("%v: sent %d times, done: %t, %v", k.says, asked, done, err)
		}
	}
}
