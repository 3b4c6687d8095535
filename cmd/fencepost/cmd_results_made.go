package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"fencepost/reports"
	"fencepost/reports/evidence"
	"fencepost/scripts"
)

// maker is what made a result.
type maker struct {
	result   string
	versions map[string]string
	// claims: it ended as it should, and so says that something holds. What did not says only
	// that something is to be looked at, and is kept whatever made it.
	claims bool
}

// makersOf are those of all that is kept.
func makersOf(k reports.Kept) []maker {
	var out []maker
	for _, r := range k.Runs {
		out = append(out, maker{filepath.Join(reports.KeptChaos, r.Info.Run), r.Info.Versions, reports.AsExpected(r)})
	}
	for _, b := range k.Benches {
		out = append(out, maker{filepath.Join(reports.KeptBench, b.Name), b.Versions, true})
	}
	for _, s := range k.Scores {
		out = append(out, maker{filepath.Join(reports.KeptScores, s.Kind+" "+s.Name), s.Versions, true})
	}
	stored := func(dir string, all []evidence.Result) {
		for _, r := range all {
			out = append(out, maker{filepath.Join(dir, r.Name()), r.Info.Versions, reports.AsExpected(r)})
		}
	}
	stored(reports.KeptPower, k.Power)
	for name, all := range k.Sets {
		stored(filepath.Join(reports.KeptEvidence, name), all)
	}
	slices.SortFunc(out, func(a, b maker) int { return strings.Compare(a.result, b.result) })
	return out
}

// repoAround is the git repository around a directory of results; nil if there is none.
func repoAround(dir string) *repo {
	out, err := git(filepath.Dir(dir), "rev-parse", "--show-toplevel")
	if err != nil {
		return nil
	}
	return &repo{dir: out, trees: map[string]string{}, rans: map[string]string{}}
}

// repo knows which code a commit has.
type repo struct {
	dir   string
	trees map[string]string // digest by commit; "": there is no such commit
	rans  map[string]string // of what decides what runs, by commit
}

// tree is the digest of a commit, "" if it is not in the repository.
func (r *repo) tree(commit string) (string, error) {
	if t, ok := r.trees[commit]; ok {
		return t, nil
	}
	if _, err := git(r.dir, "cat-file", "-e", commit+"^{commit}"); err != nil {
		r.trees[commit] = ""
		return "", nil
	}
	// What a digest is of may change: a commit's own script says what it was.
	script, err := git(r.dir, "show", commit+":scripts/digest")
	if err != nil {
		script = scripts.Digest
	}
	r.trees[commit], err = r.digest(script, commit)
	return r.trees[commit], err
}

// digest is what a script says.
func (r *repo) digest(script string, args ...string) (string, error) {
	cmd := exec.Command("bash", append([]string{"-s", "--"}, args...)...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(script)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("digest of commit %s: %w", args[len(args)-1], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// ran is the digest of what decides what runs, of a commit or else of one that was looked up and
// has its tree; "" if there is none. Older scripts do not know it: today's says it of all.
func (r *repo) ran(commit, tree string) (string, error) {
	switch has, err := r.tree(commit); {
	case err != nil:
		return "", err
	case has == "":
		if commit = r.standIn(tree); commit == "" {
			return "", nil
		}
	}
	if d, ok := r.rans[commit]; ok {
		return d, nil
	}
	d, err := r.digest(scripts.Digest, "--ran", commit)
	if err == nil {
		r.rans[commit] = d
	}
	return d, err
}

// know looks up the commits that results name, and the one that is checked out.
func (r *repo) know(all []maker) error {
	if r == nil {
		return nil
	}
	if _, err := r.tree("HEAD"); err != nil {
		return err
	}
	for _, m := range all {
		if !m.claims || m.unknown() != "" {
			continue
		}
		for _, key := range []string{evidence.CommitKey, evidence.RanCommitKey} {
			if commit := m.versions[key]; commit != "" {
				if _, err := r.tree(commit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// standIn is a commit that was looked up and has the tree, "" if there is none: a rebase or a squash
// makes a new commit of the same code.
func (r *repo) standIn(tree string) string {
	if tree == "" {
		return ""
	}
	for commit, has := range r.trees {
		if has == tree {
			return commit
		}
	}
	return ""
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// refuse returns an error that names the claims that no commit answers for. Without a
// repository it goes by what they say of themselves.
func refuse(all []maker, in *repo) error {
	if err := in.know(all); err != nil {
		return err
	}
	bad := map[string][]string{}
	for _, m := range all {
		if !m.claims {
			continue
		}
		why, err := m.refused(in)
		if err != nil {
			return err
		}
		if why != "" {
			bad[why] = append(bad[why], m.result)
		}
	}
	var errs []error
	for why, results := range bad {
		first := strings.Join(results[:min(len(results), 3)], ", ")
		if n := len(results) - 3; n > 0 {
			first += fmt.Sprintf(" and %d more", n)
		}
		errs = append(errs, fmt.Errorf("refused: %s (%s): build from a commit and run it again", why, first))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// unknown says why no commit has the code, as far as the result itself tells; "" if one may.
func (m maker) unknown() string {
	switch commit := m.versions[evidence.CommitKey]; {
	case commit == "" || commit == unknownBuild:
		return "made by code of which nothing is known"
	case strings.HasSuffix(commit, evidence.DirtyCommit):
		return fmt.Sprintf("made by a changed work tree (%s)", commit)
	}
	if ran := m.ran(); ran != nil {
		if ran.versions[evidence.TreeKey] == "" {
			return "judged again, and nothing says which tree ran"
		}
		if why := ran.unknown(); why != "" {
			return "judged again, and the run was " + why
		}
	}
	return ""
}

// ran is what carried the run out, of a result that was judged again; else nil.
func (m maker) ran() *maker {
	commit, tree := m.versions[evidence.RanCommitKey], m.versions[evidence.RanTreeKey]
	if commit == "" && tree == "" {
		return nil
	}
	return &maker{m.result, map[string]string{evidence.CommitKey: commit, evidence.TreeKey: tree}, m.claims}
}

// refused says why a claim is, "" if it is not.
func (m maker) refused(in *repo) (why string, err error) {
	if why = m.unknown(); why != "" || in == nil {
		return why, nil
	}
	if why, err = m.misnamed(in); why != "" || err != nil {
		return why, err
	}
	ran := m.ran()
	if ran == nil {
		return "", nil
	}
	if why, err = ran.misnamed(in); why != "" || err != nil {
		return "judged again, and the run was " + why, err
	}
	runs, err := in.ran(ran.commitAndTree())
	if err != nil {
		return "", err
	}
	judges, err := in.ran(m.commitAndTree())
	if err != nil || runs == judges {
		return "", err
	}
	return fmt.Sprintf("judged again by commit %s, whose code that runs is not that of commit %s", m.versions[evidence.CommitKey], m.versions[evidence.RanCommitKey]), nil
}

func (m maker) commitAndTree() (commit, tree string) {
	return m.versions[evidence.CommitKey], m.versions[evidence.TreeKey]
}

// misnamed says why no commit of the repository is the one that a result names, with its tree.
func (m maker) misnamed(in *repo) (why string, err error) {
	commit, tree := m.commitAndTree()
	switch has, err := in.tree(commit); {
	case err != nil:
		return "", err
	case has == "" && in.standIn(tree) == "":
		return fmt.Sprintf("made by commit %s, which is not in %s, nor is another one of the same code", commit, in.dir), nil
	case has == "":
		return "", nil
	case tree != "" && tree != has:
		return fmt.Sprintf("said to be made by the tree %s, but commit %s is %s", tree, commit, has), nil
	}
	return "", nil
}
