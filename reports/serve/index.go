package serve

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Index is what is known of a directory of runs. Entries are made once and never
// changed; a run whose files have changed gets a new one. Safe for concurrent use.
type Index struct {
	dir string

	mu      sync.Mutex
	known   map[string]kept
	list    []*Entry
	version uint64
	scanned time.Time
	took    time.Duration
	err     error
}

// kept is an entry with what it was made of; nil is a directory that is no run's.
type kept struct {
	stamp stamp
	entry *Entry
}

// fresh is how long a scan is good for: a page with its parts, and everybody who
// watches the list, share one.
const fresh = 300 * time.Millisecond

// NewIndex returns the index of a directory of runs, which need not exist yet.
func NewIndex(dir string) *Index { return &Index{dir: dir, known: map[string]kept{}} }

// List returns the entries, the newest first, and a number that differs whenever
// they do. The directory's own error comes with what was known before.
func (x *Index) List() ([]*Entry, uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Since(x.scanned) > fresh {
		x.scan()
	}
	return x.list, x.version, x.err
}

// Find returns an entry by its name.
func (x *Index) Find(name string) (*Entry, bool) {
	list, _, _ := x.List()
	i := slices.IndexFunc(list, func(e *Entry) bool { return e.Name == name })
	if i < 0 {
		return nil, false
	}
	return list[i], true
}

// scan looks at the directory again; x.mu is held.
func (x *Index) scan() {
	began := time.Now()
	names, err := x.names()
	if err != nil {
		x.err = fmt.Errorf("the directory of runs cannot be read: %w", err)
		x.scanned = time.Now()
		return
	}
	known := make(map[string]kept, len(names))
	var list []*Entry
	version := fnv.New64a()
	for _, name := range names {
		dir := filepath.Join(x.dir, filepath.FromSlash(name))
		k, ok := x.known[name]
		// Whether a process still holds a run's file shows in no stamp.
		if s := stampOf(dir); !ok || k.stamp != s || k.entry != nil && k.entry.State == Running && !held(filepath.Join(dir, progressFile)) {
			k = kept{s, readEntry(dir, name, s)}
		}
		known[name] = k
		if k.entry != nil {
			list = append(list, k.entry)
			fmt.Fprintln(version, name, k.stamp.still(), k.entry.State, k.entry.phase())
		}
	}
	slices.SortStableFunc(list, func(a, b *Entry) int {
		if c := b.Info.Started.Compare(a.Info.Started); c != 0 {
			return c
		}
		return strings.Compare(b.Name, a.Name)
	})
	x.known, x.list, x.err, x.version = known, list, nil, version.Sum64()
	x.scanned = time.Now()
	x.took = x.scanned.Sub(began)
}

// names are the directories that may be runs': those in the directory, and those in
// a directory of it that is no run's itself, as "fencepost soak" makes them.
func (x *Index) names() ([]string, error) {
	top, err := directories(x.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range top {
		out = append(out, name)
		dir := filepath.Join(x.dir, name)
		if stampOf(dir) != (stamp{}) {
			continue
		}
		below, err := directories(dir)
		if err != nil {
			continue // removed meanwhile, or not ours to read
		}
		for _, n := range below {
			out = append(out, path.Join(name, n))
		}
	}
	return out, nil
}

// directories are the names of a directory's directories; links are none.
func directories(dir string) ([]string, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range all {
		if d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			out = append(out, d.Name())
		}
	}
	return out, nil
}

// Took is how long the last scan took.
func (x *Index) Took() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.took
}
