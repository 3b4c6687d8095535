package own

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program is a user's command line. Its words are separated by blanks; there is no shell.
type Program struct {
	Words []string
	// Dir is where it is started; relative paths in Words are meant from there.
	Dir string
}

// Parse splits a command line into its words.
func Parse(line string) (Program, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return Program{}, errors.New("no program is named: exec:CMD, such as exec:python3 mine.py")
	}
	return Program{Words: words}, nil
}

// Look says whether the program can be started at all.
func (p Program) Look() error {
	_, err := p.path()
	return err
}

func (p Program) path() (string, error) {
	name := p.Words[0]
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(p.Dir, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("exec:%s: the program cannot be started: %w", strings.Join(p.Words, " "), err)
	}
	return path, nil
}

// Command is the program with the variables of its task.
func (p Program) Command(vars []string) (*exec.Cmd, error) {
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, p.Words[1:]...)
	cmd.Args[0] = p.Words[0]
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), vars...)
	return cmd, nil
}
