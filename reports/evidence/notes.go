package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
