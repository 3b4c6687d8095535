package reports

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
)

// GateRun is a run as CI output shows it.
type GateRun struct {
	Name string // the run's or, if it has no directory, what was to be run
	// Result is the verdict; nil if there is none, and Err says why.
	Result *checker.Result
	Err    string
	// Report holds the numbers of the run's page; nil if it has none.
	Report *Report
	Info   rundir.Info
	Page   string // path of the page, "" without one
}

// ReadGateRun makes a GateRun of a run's directory and its verdict. A run without
// a report has no numbers; one whose report cannot be read is an error.
func ReadGateRun(dir string, res *checker.Result) (GateRun, error) {
	g := GateRun{Name: filepath.Base(dir), Result: res}
	path := filepath.Join(dir, JSONFile)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// The history is checked first; its page may not have been made.
		info, err := rundir.ReadInfo(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return g, err
		}
		g.Info = info
		return g, nil
	case err != nil:
		return g, err
	}
	var rep Report
	if err := json.Unmarshal(b, &rep); err != nil {
		return g, fmt.Errorf("%s: %w", path, err)
	}
	g.Report, g.Info, g.Page = &rep, rep.Info, filepath.Join(dir, rundir.ReportFile)
	return g, nil
}

// word is the verdict, or that there is none.
func (g GateRun) word() string {
	if g.Result == nil {
		return "NOT CARRIED OUT"
	}
	return string(g.Result.Verdict)
}

// answer is what the run's outcome means. A run that was not carried out lacks what its error
// names.
func (g GateRun) answer() checker.Answer {
	if g.Result == nil {
		first, _, _ := strings.Cut(g.Err, "\n")
		return checker.Answer{What: "the run was not carried out, or not checked: " + strings.TrimRight(first, ":. "),
			Do: "mend that and run it again (fencepost doctor says what this machine lacks)"}
	}
	var e *checker.Explanation
	if g.Report != nil {
		e = g.Report.Explanation
	}
	return checker.AnswerOf(g.Result, e)
}

// setting is what tells a run from others of its scenario.
func (g GateRun) setting() string {
	i := g.Info
	if i.Scenario == "" {
		return ""
	}
	parts := []string{i.Scenario}
	if i.Contention != "" {
		parts = append(parts, i.Contention+" contention")
	}
	return strings.Join(append(parts, fmt.Sprintf("seed %d", i.Seed), "system "+i.SystemText()), ", ")
}

// fired lists the properties that are not well.
func (g GateRun) fired() []string {
	var out []string
	if g.Result == nil {
		return nil
	}
	for _, p := range g.Result.Properties {
		if p.Status == checker.StatusFail || p.Status == checker.StatusInvalid || p.Status == checker.StatusUnknown {
			out = append(out, p.ID)
		}
	}
	return out
}

// junitSuites and what is below it is the part of JUnit's XML that every consumer
// reads: no attribute or element that one of the usual schemas lacks.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"` // seconds
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"` // UTC, without a zone
	Properties *junitFacts     `xml:"properties,omitempty"`
	Cases      []junitTestCase `xml:"testcase"`
	Out        string          `xml:"system-out,omitempty"`
}

type junitFacts struct {
	Facts []junitFact `xml:"property"`
}

type junitFact struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitTestCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Error   *junitText `xml:"error,omitempty"`
	Skipped *junitText `xml:"skipped,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr,omitempty"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the runs as JUnit XML: a suite a run, a test case a property.
// A violated property is a failure, whose message is what happened in one sentence; one that
// is invalid or unknown is an error,
// as neither says that the system is well; one that is n/a is skipped. A run
// without a verdict is a suite with one error.
func WriteJUnit(w io.Writer, runs []GateRun) error {
	all := junitSuites{Name: "fencepost", Suites: []junitSuite{}}
	total := 0.0
	for _, g := range runs {
		s, took := g.suite()
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
		total += took
		all.Suites = append(all.Suites, s)
	}
	all.Time = seconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }

func (g GateRun) suite() (s junitSuite, took float64) {
	s = junitSuite{Name: g.Name, Out: g.Err}
	class := "fencepost"
	if i := g.Info; i.Scenario != "" {
		class += "." + i.Scenario
		s.Properties = &junitFacts{[]junitFact{
			{"scenario", i.Scenario}, {"seed", fmt.Sprint(i.Seed)}, {"system", i.System}, {"sink", i.Sink}, {"contention", i.Contention},
			{"workload", i.Workload}, {"command", i.Command},
		}}
		if g.Page != "" {
			s.Properties.Facts = append(s.Properties.Facts, junitFact{"report", g.Page})
		}
		if !i.Started.IsZero() {
			s.Timestamp = i.Started.UTC().Format("2006-01-02T15:04:05")
			took = max(i.Ended.Sub(i.Started).Seconds(), 0)
		}
	}
	if g.Result == nil {
		s.Cases = []junitTestCase{{Name: "the run is carried out and checked", Class: class, Time: seconds(took),
			Error: &junitText{Message: g.answer().Sentence(), Type: "NOT CARRIED OUT", Text: g.Err}}}
	} else {
		answer := g.answer()
		s.Out = sentenceCase(answer.Sentence())
		took = max(took, g.Result.Millis/1e3)
		for _, p := range g.Result.Properties {
			s.Cases = append(s.Cases, testCase(p, class, answer))
		}
	}
	for _, c := range s.Cases {
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
	s.Tests, s.Time = len(s.Cases), seconds(took)
	return s, took
}

// testCase is a property. What the answer tells of has its sentence as the message, and what
// was found of the property itself below.
func testCase(p checker.Property, class string, answer checker.Answer) junitTestCase {
	c := junitTestCase{Name: p.ID + " " + p.Title, Class: class, Time: seconds(p.Millis * float64(time.Millisecond) / float64(time.Second))}
	text := &junitText{Type: strings.ToUpper(string(p.Status)), Message: p.Detail}
	if len(p.Violations) > 0 && p.Status != checker.StatusUnknown { // of an unknown property none is conclusive
		text.Message, text.Text = p.Violations[0].Message, violationsText(p)
	}
	if slices.Contains(answer.Properties, p.ID) {
		text.Message = answer.Sentence()
	}
	switch p.Status {
	case checker.StatusPass:
	case checker.StatusFail:
		c.Failure = text
	case checker.StatusNA:
		c.Skipped = &junitText{Message: p.Detail}
	default:
		c.Error = text
	}
	return c
}

// violationsText lists the violations with the places of their events.
func violationsText(p checker.Property) string {
	var b strings.Builder
	for _, v := range p.Violations {
		fmt.Fprintf(&b, "%s\n", v.Message)
		for _, e := range v.Events {
			fmt.Fprintf(&b, "  %s:%d\n", e.File, e.Line)
		}
	}
	if more := p.Count - len(p.Violations); more > 0 {
		fmt.Fprintf(&b, "%d more\n", more)
	}
	return b.String()
}
