package reports

import (
	"fmt"
	"path/filepath"
	"strings"

	"fencepost/checker"
	"fencepost/reports/measure"
)

// explanationView is why the run is not PASS: one case, and the mistakes that fit.
type explanationView struct {
	Lead           string
	Shown          *causeView // nil: nothing that is known here fits
	Rivals, Others []causeView
	Unexplained    []string
	Lacks          []string
}

type causeView struct {
	Statement, Mechanism, Key, Seen, Apart string
	Weaker                                 bool // others have better evidence
	Properties                             []propertyLink
	Evidence                               []string
	Chain                                  []stepView
	Logs                                   []logView
}

type propertyLink struct{ ID, Link string }

type stepView struct{ At, Role, Name, Text, Where, Link string }

type logView struct{ At, Where, Link, Text string }

// roleNames are the roles of a chain's steps as a page shows them.
var roleNames = map[string]string{
	checker.RoleBefore: "before", checker.RoleFault: "fault", checker.RoleMistake: "the mistake", checker.RoleHarm: "what came of it",
}

// explain looks for the cause of a verdict that is not PASS.
func (r *run) explain() error {
	if r.verdict == nil || r.history == nil || r.verdict.Verdict == checker.Pass {
		return nil
	}
	r.explanation = checker.Explain(r.history, r.verdict, checker.Options{Dir: r.dir})
	if err := r.explanation.AddLogs(r.dir, r.history); err != nil {
		return fmt.Errorf("the explanation lacks what the logs say: %w", err)
	}
	return nil
}

// cause is the view, nil if there is nothing to explain.
func (r *run) cause() *explanationView {
	e := r.explanation
	if e == nil {
		return nil
	}
	v := &explanationView{Lead: "No mechanism that is known here fits what was found.", Unexplained: sentences(e.Unexplained), Lacks: sentences(e.Lacks)}
	if len(e.Causes) == 0 {
		return v
	}
	shown, rivals, others := e.Split()
	first := r.causeView(shown)
	v.Shown, v.Rivals, v.Others = &first, r.causeViews(rivals), r.causeViews(others)
	switch {
	case len(rivals) > 0:
		v.Lead = "Several mechanisms fit, and this history cannot tell them apart."
	case len(e.Best()) > 1:
		v.Lead = "Several mechanisms fit equally well; there may be more than one mistake."
	default:
		v.Lead = "One mechanism fits best."
	}
	return v
}

func (r *run) causeViews(causes []checker.Cause) (out []causeView) {
	for _, c := range causes {
		out = append(out, r.causeView(c))
	}
	return out
}

func (r *run) causeView(c checker.Cause) causeView {
	v := causeView{
		Statement: sentenceCase(c.Statement), Mechanism: c.Mechanism, Key: c.Key, Weaker: c.Rank > 1, Evidence: sentences(c.Evidence),
		Apart: sentenceCase(c.Apart), Seen: "seen once",
	}
	if c.Count > 1 {
		v.Seen = fmt.Sprintf("seen %s times", measure.FormatCount(c.Count))
	}
	for _, p := range c.Properties {
		v.Properties = append(v.Properties, propertyLink{p, r.propertyLink(p)})
	}
	for _, s := range c.Chain {
		step := stepView{At: r.clock(s.TS), Role: s.Role, Name: roleNames[s.Role], Text: s.Text}
		if s.File != "" {
			step.Link = relative(s.File)
			step.Where = fmt.Sprintf("%s:%d", filepath.Base(step.Link), s.Line)
		}
		v.Chain = append(v.Chain, step)
	}
	for _, l := range c.Logs {
		v.Logs = append(v.Logs, logView{At: fmt.Sprintf("%.3f s", l.At), Where: fmt.Sprintf("%s:%d", strings.TrimPrefix(l.File, "logs/"), l.Line), Link: safeLink(l.File), Text: l.Text})
	}
	return v
}

// propertyLink leads to a property's first violation, or to the table.
func (r *run) propertyLink(id string) string {
	for _, p := range r.verdict.Properties {
		if p.ID == id && len(p.Violations) > 0 && p.Status != checker.StatusInvalid {
			return "#" + violationID(id, 0)
		}
	}
	return "#properties"
}

func sentences(texts []string) []string {
	var out []string
	for _, t := range texts {
		out = append(out, sentenceCase(t))
	}
	return out
}
