package history

import (
	"bytes"
	"errors"
	"testing"
)

// seeds are files of every kind: whole, torn, malformed, of the harness.
func seeds(t testing.TB) [][]byte {
	all := encode(t, header("r", "w1.1", "b"), stamped(everyEvent("w1.1"))...)
	host := encode(t, header("r", Harness, "b"), stamped(harnessEvent())...)
	lines := bytes.SplitAfter(all, []byte("\n"))
	swapped := bytes.Join([][]byte{lines[0], lines[6], lines[5]}, nil)
	return [][]byte{
		all, host, swapped,
		all[:len(all)-1],                         // without the last newline
		all[:len(all)-9],                         // torn
		all[:40],                                 // torn header
		bytes.Join([][]byte{lines[0], all}, nil), // a header as an event
		append(bytes.Clone(all), "\n\n"...),
		append(bytes.Clone(lines[0]), `{"ts":1,"proc":"w1.1","type":"note","op":"exit"} {"ts":2}`...),
		append(bytes.Clone(lines[0]), `{"ts":1,"proc":"w1.1","type":"note","op":"point","sends":[],"fault":null,"error":"\ud800"}`...),
		[]byte(`{"format":"fencepost-history","version":1}` + "\n" + `{"ts":1,"proc":"w","type":"note","op":"fault"}`),
		append(bytes.Clone(lines[0]), `{"ts":1,"ts":1,"proc":"w1.1","type":"note","op":"exit"}`...),
		append(bytes.Clone(lines[0]), `{"Ts":1,"proc":"w1.1","type":"note","op":"exit"}`...),
		append(bytes.Clone(lines[0]), "{\"ts\":1,\"proc\":\"w1.1\",\"type\":\"note\",\"op\":\"exit\",\"error\":\"\xff\"}"...),
		append(bytes.Clone(lines[0]), `{"ts":9223372036854775808,"proc":"w1.1","type":"note","op":"exit"}`...),
		[]byte("\n"), nil,
	}
}

// FuzzRead: any bytes give a history or an error that names the place; what is
// accepted can be joined, merged and written again to the same effect, and loses
// no more than its last event when it is torn.
func FuzzRead(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := readOrPlace(t, data)
		if h == nil || len(h.Headers) == 0 {
			return
		}
		for _, o := range h.Operations() {
			if o.Outcome != Unknown && o.End.TS < o.Invoke.TS {
				t.Fatalf("%+v", o)
			}
		}
		h.Phases()
		h.Faults()
		again := encode(t, h.Headers[0], h.Events...)
		copied, err := Read(bytes.NewReader(again), "f")
		if err != nil || copied.Torn != 0 || !bytes.Equal(encode(t, copied.Headers[0], copied.Events...), again) {
			t.Fatalf("written again it is another history: %v", err)
		}
		if _, err := Merge(h); err != nil {
			t.Fatal(err)
		}
		if n := len(h.Events); n > 0 {
			torn, err := Read(bytes.NewReader(again[:len(again)-3]), "f")
			if err != nil || len(torn.Events) != n-1 || torn.Torn != 1 {
				t.Fatalf("torn it does not read as what is before: %v", err)
			}
		}
	})
}

// FuzzDamaged changes one byte or one line of a whole file: it reads as another
// history or is refused at a line of the file.
func FuzzDamaged(f *testing.F) {
	whole := seeds(f)[0]
	f.Add(uint16(3), byte(0), byte(1))
	f.Add(uint16(900), byte(1), byte('{'))
	f.Add(uint16(2), byte(2), byte(0))
	f.Add(uint16(5), byte(3), byte(0))
	f.Add(uint16(700), byte(4), byte(0))
	f.Fuzz(func(t *testing.T, at uint16, kind, with byte) {
		data := damage(whole, int(at), kind, with)
		h := readOrPlace(t, data)
		if h != nil && len(h.Events)+h.Torn+1 != countLines(data) {
			t.Fatalf("%d events and %d torn of %d lines: a line was skipped", len(h.Events), h.Torn, countLines(data))
		}
	})
}

func damage(whole []byte, at int, kind, with byte) []byte {
	data := bytes.Clone(whole)
	lines := bytes.SplitAfter(data, []byte("\n"))
	lines = lines[:len(lines)-1] // what follows the last newline
	line := at % len(lines)
	switch kind % 5 {
	case 0:
		data[at%len(data)] ^= 1 << (with % 8)
		return data
	case 1:
		data[at%len(data)] = with
		return data
	case 2: // a line is lost
		return bytes.Join(append(lines[:line:line], lines[line+1:]...), nil)
	case 3: // a line is doubled
		return bytes.Join(append(lines[:line+1:line+1], lines[line:]...), nil)
	}
	return data[:at%len(data)]
}

func countLines(data []byte) int {
	n := bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}

// readOrPlace reads data or fails unless the error names a line of it.
func readOrPlace(t *testing.T, data []byte) *History {
	t.Helper()
	h, err := Read(bytes.NewReader(data), "f")
	if err == nil {
		return h
	}
	var fe *FormatError
	if !errors.As(err, &fe) || fe.File != "f" || fe.Line < 1 || fe.Line > max(1, countLines(data)) {
		t.Fatalf("error without a place in the file: %v", err)
	}
	return nil
}
