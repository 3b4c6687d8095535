// Package lines starts programs in other languages that speak lines of JSON on their standard input and
// output, and end when their input does.
package lines

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// Process is such a program.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	how   error // set when ended is closed

	mu sync.Mutex // of in
	in io.WriteCloser
}

// Start starts a program. hear is called with each line that it says, one after the other; after an
// error of hear, which says what is wrong with the line, no line of it can be trusted, and it is killed.
func Start(cmd *exec.Cmd, hear func(line []byte) error) (*Process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &Process{cmd: cmd, ended: make(chan struct{}), in: in}
	go func() {
		broken := read(out, hear)
		if broken != nil { // it may never end by itself
			p.Kill()
		}
		p.how = cmp.Or(broken, cmd.Wait())
		close(p.ended)
	}()
	return p, nil
}

func read(out io.Reader, hear func([]byte) error) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if err := hear(lines.Bytes()); err != nil {
			return fmt.Errorf("said %q: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

// Say tells the program a line.
func (p *Process) Say(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.in.Write(append(text, '\n'))
	return err
}

// CloseInput closes the program's input, which it may have left already.
func (p *Process) CloseInput() { _ = p.in.Close() }

// Kill kills the program, unless it has ended.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// Ended is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// How is how it ended, once it has; nil: in order.
func (p *Process) How() error {
	<-p.ended
	return p.how
}
