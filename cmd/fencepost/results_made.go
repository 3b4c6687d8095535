package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
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

// verdictIn is how a run was judged; nil if it was not.
func verdictIn(dir string) (*checker.Result, error) {
	var was checker.Result
	switch err := rundir.ReadJSON(filepath.Join(dir, rundir.VerdictFile), &was); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &was, nil
}

// repoAround is the git repository around a directory of results; nil if there is none.
func repoAround(dir string) *repo {
	out, err := git(filepath.Dir(dir), "rev-parse", "--show-toplevel")
	if err != nil {
		return nil
	}
	return &repo{dir: out, trees: map[string]string{}}
}

// repo knows which code a commit has.
type repo struct {
	dir   string
	trees map[string]string // digest by commit; "": there is no such commit
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
	cmd := exec.Command("bash", "-s", commit)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(scripts.Digest)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("digest of commit %s: %w", commit, err)
	}
	r.trees[commit] = strings.TrimSpace(string(out))
	return r.trees[commit], nil
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
	return ""
}

// refused says why a claim is, "" if it is not.
func (m maker) refused(in *repo) (why string, err error) {
	if why = m.unknown(); why != "" || in == nil {
		return why, nil
	}
	commit, tree := m.versions[evidence.CommitKey], m.versions[evidence.TreeKey]
	switch has, err := in.tree(commit); {
	case err != nil:
		return "", err
	case has == "":
		return fmt.Sprintf("made by commit %s, which is not in %s", commit, in.dir), nil
	case tree != "" && tree != has:
		return fmt.Sprintf("said to be made by the tree %s, but commit %s is %s", tree, commit, has), nil
	}
	return "", nil
}
