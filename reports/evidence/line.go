package evidence

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"fencepost/checker"
)

// line is a stored result: what many runs have in common, or what follows from the rest of the
// line, is not in it.
type line struct {
	Result
	Environment string `json:"environment"` // the digest of one that the file has before
	// Passed and NotJudged are the ids of such properties; the others are in Check.
	Passed    string `json:"passed,omitempty"`
	NotJudged string `json:"not_judged,omitempty"`
	// Run and Check are the Result's Info and Check without what is zero.
	Run   json.RawMessage `json:"run"`
	Check json.RawMessage `json:"check,omitempty"`
}

// absolute is a path of the machine that made a result. Of it only the last name is stored.
var absolute = regexp.MustCompile(`(^|[\s'"(=])(?:/[^\s/:;,'"]+)+/([^\s/:;,'"]+)`)

// encode makes a result's line.
func encode(r Result) ([]byte, error) {
	digest, _, err := environmentOf(r).line()
	if err != nil {
		return nil, err
	}
	l := line{Result: r, Environment: digest}
	l.Error = absolute.ReplaceAllString(r.Error, "$1$2")
	info := r.Info
	info.Scenario, info.About, info.Seed, info.System = "", "", 0, ""
	info.Versions = only(info.Versions, ofRun)
	info.Machine = only(info.Machine, ofRun)
	if l.Run, err = sparse(info); err != nil || r.Check == nil {
		return marshal(l, err)
	}
	check := *r.Check
	check.Run, check.Properties = "", nil
	for _, p := range r.Check.Properties {
		switch p.Status {
		case checker.StatusPass:
			l.Passed += p.ID + " "
		case checker.StatusNA:
			l.NotJudged += p.ID + " "
		default:
			p.Title = ""
			check.Properties = append(check.Properties, p)
		}
	}
	l.Passed, l.NotJudged = strings.TrimSpace(l.Passed), strings.TrimSpace(l.NotJudged)
	l.Check, err = sparse(check)
	return marshal(l, err)
}

func marshal(l line, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(l)
}

// result is the result of a line, or what is wrong with it.
func (l line) result(environments map[string]environment) (Result, error) {
	r := l.Result
	if r.Version != Version {
		return r, fmt.Errorf("it has version %d, this tool reads version %d", r.Version, Version)
	}
	e, ok := environments[l.Environment]
	if !ok {
		return r, fmt.Errorf("no line before it has the environment %q", l.Environment)
	}
	if err := json.Unmarshal(l.Run, &r.Info); err != nil {
		return r, fmt.Errorf("run: %w", err)
	}
	if r.Info.Run != "" {
		r.Info.Scenario, r.Info.Seed, r.Info.System = r.Job.Scenario, r.Job.Seed, r.Job.System
	}
	r.Info.Versions, r.Info.Machine = with(r.Info.Versions, e.Versions), with(r.Info.Machine, e.Machine)
	if len(l.Check) > 0 {
		r.Check = &checker.Result{}
		if err := json.Unmarshal(l.Check, r.Check); err != nil {
			return r, fmt.Errorf("check: %w", err)
		}
		r.Check.Run, r.Check.Properties = r.Info.Run, l.properties(r.Check.Properties)
	}
	return r, r.check()
}

// properties are all of them, in order.
func (l line) properties(all []checker.Property) []checker.Property {
	for _, id := range strings.Fields(l.Passed) {
		all = append(all, checker.Property{ID: id, Status: checker.StatusPass})
	}
	for _, id := range strings.Fields(l.NotJudged) {
		all = append(all, checker.Property{ID: id, Status: checker.StatusNA})
	}
	titles := map[string]string{}
	for _, p := range checker.Catalogue() {
		titles[p.ID] = p.Title
	}
	for i := range all {
		all[i].Title = titles[all[i].ID]
	}
	number := func(p checker.Property) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(p.ID, "P"))
		return n
	}
	slices.SortFunc(all, func(a, b checker.Property) int { return cmp.Compare(number(a), number(b)) })
	return all
}

// environment is what the runs of a day on a machine have in common.
type environment struct {
	Versions map[string]string `json:"versions,omitempty"`
	Machine  map[string]string `json:"machine,omitempty"`
}

// ofRun are the versions, and what is noted of the machine, that are a run's own.
var ofRun = []string{CommitKey, TreeKey, PlanKey, RanCommitKey, RanTreeKey, "load"}

func environmentOf(r Result) environment {
	own := func(k, _ string) bool { return slices.Contains(ofRun, k) }
	e := environment{maps.Clone(r.Info.Versions), maps.Clone(r.Info.Machine)}
	maps.DeleteFunc(e.Versions, own)
	maps.DeleteFunc(e.Machine, own)
	return e
}

// line is the environment's own line, with its digest.
func (e environment) line() (digest string, text []byte, err error) {
	b, err := json.Marshal(e)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(b)
	digest = hex.EncodeToString(sum[:4])
	text, err = json.Marshal(struct {
		Environment string `json:"environment"`
		environment
	}{digest, e})
	return digest, text, err
}

func only(m map[string]string, keys []string) map[string]string {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(k, _ string) bool { return !slices.Contains(keys, k) })
	return out
}

// with adds what is common to what is a run's own.
func with(own, common map[string]string) map[string]string {
	if own == nil {
		return maps.Clone(common)
	}
	maps.Copy(own, common)
	return own
}

// sparse is v as JSON without members that are zero: reading sets them again.
func sparse(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var x any
	if err := dec.Decode(&x); err != nil {
		return nil, err
	}
	prune(x)
	return json.Marshal(x)
}

// prune removes zero members of objects, and says whether nothing is left.
func prune(v any) (zero bool) {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, x any) bool { return prune(x) })
		return len(v) == 0
	case []any:
		for _, x := range v {
			prune(x)
		}
		return len(v) == 0
	case string:
		return v == "" || v == "0001-01-01T00:00:00Z"
	case json.Number:
		return v == "0"
	case bool:
		return !v
	}
	return v == nil
}

// Condense keeps of a verdict what is made of results: the properties, with a sentence where one
// does not hold, the counts that are summed up, and the points. The rest is in the run's directory.
func Condense(v checker.Result) *checker.Result {
	out := checker.Result{
		Version: v.Version, Run: v.Run, Verdict: v.Verdict, HostBusy: v.HostBusy, Cold: v.Cold, Millis: v.Millis, Growth: v.Growth,
	}
	if v.Verdict != checker.Pass {
		out.Summary = v.Summary
	}
	for _, p := range v.Properties {
		slim := checker.Property{ID: p.ID, Title: p.Title, Status: p.Status, Count: p.Count}
		switch {
		case p.Status == checker.StatusPass || p.Status == checker.StatusNA:
		case len(p.Violations) > 0:
			slim.Violations = []checker.Violation{{Message: p.Violations[0].Message}}
		default:
			slim.Detail = p.Detail
		}
		out.Properties = append(out.Properties, slim)
	}
	c := v.Counts
	out.Counts = checker.Counts{
		Operations: c.Operations, Cycles: c.Cycles, Takeovers: c.Takeovers, Effects: c.Effects, StaleRefused: c.StaleRefused,
		LeasesLost: c.LeasesLost,
		Unknowns:   c.Unknowns, UnknownSettled: c.UnknownSettled, Resends: c.Resends, Faults: c.Faults, FaultsProven: c.FaultsProven,
		Points: c.Points,
	}
	return &out
}

// LineError is a line of a file of results that cannot be used.
type LineError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s:%d: %v: restore the line, or remove it to have its run done again", e.File, e.Line, e.Err)
}

func (e *LineError) Unwrap() error { return e.Err }

var errTorn = errors.New("torn: the line has no end")

// ReadLines reads a file of one JSON value a line; a file that is not there has none. A last
// line without an end is a *LineError, and so is what use refuses.
func ReadLines(file string, use func(line []byte) error) error {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n := 0
	for line := range bytes.Lines(b) {
		n++
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			return &LineError{file, n, errTorn}
		}
		if err := use(text); err != nil {
			return &LineError{file, n, err}
		}
	}
	return nil
}

// EditLines replaces a file by the lines that edit returns. Who reads, and a power cut, sees
// the old file or the new one; other edits in its directory wait.
func EditLines(file string, edit func() ([][]byte, error)) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	lines, err := edit()
	if err != nil {
		return err
	}
	return replaceFile(file, append(bytes.Join(lines, []byte("\n")), '\n'))
}

func replaceFile(file string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	if err := errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// NotesFile, in the directory of results, says of each kept run that did not end as it
// should why it did not.
const NotesFile = "notes.yaml"

// Note is what is known of such a run.
type Note struct {
	// Result names it by its file below the directory of results, without the ending, and
	// its own name: evidence/SET/SCENARIO-CONTENTION-SEED, power/…; of a chaos run chaos/RUN.
	Result string `yaml:"result"`
	// Cause says why it ended so, or that this is not known.
	Cause string `yaml:"cause"`
	// Mended is the commit after which it cannot, "" if there is none.
	Mended string `yaml:"mended,omitempty"`
}

var commitRule = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// ReadNotes reads the notes, by result. A file that is not there has none.
func ReadNotes(file string) (map[string]Note, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Note
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	out := map[string]Note{}
	for _, n := range all {
		n.Cause = strings.Join(strings.Fields(n.Cause), " ")
		switch _, twice := out[n.Result]; {
		case n.Result == "" || twice:
			return nil, fmt.Errorf("%s: the result %q is not named, or twice", file, n.Result)
		case n.Cause == "":
			return nil, fmt.Errorf("%s: %s: missing cause; write \"unknown\" if it is not known", file, n.Result)
		case n.Mended != "" && !commitRule.MatchString(n.Mended):
			return nil, fmt.Errorf("%s: %s: mended: %q is not a commit", file, n.Result, n.Mended)
		}
		out[n.Result] = n
	}
	return out, nil
}
