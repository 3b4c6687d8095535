package bench

import (
	"errors"
	"os"

	"fencepost/harness/env/osproc"
)

// StartPiped starts a process whose standard input and output are pipes to here. out ends with the process's.
func StartPiped(s osproc.Spec) (p *osproc.Process, in, out *os.File, err error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, in.Close())
	}
	defer theirOut.Close()
	s.Command.Stdin, s.Command.Stdout = theirIn, theirOut
	if p, err = osproc.Start(s); err != nil {
		return nil, nil, nil, errors.Join(err, in.Close(), out.Close())
	}
	return p, in, out, nil
}
