package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// lineDecoder reads one line after the other, by the grammar of RFC 8259 to the letter:
// neither invalid UTF-8 nor a name in another case. What is read into strings is copied.
type lineDecoder struct {
	dec     *jsontext.Decoder
	buf     bytes.Buffer
	names   interner
	scratch []byte
}

func newLineDecoder() *lineDecoder {
	d := &lineDecoder{names: interner{}}
	d.dec = jsontext.NewDecoder(&d.buf)
	return d
}

// line begins with a line.
func (d *lineDecoder) line(b []byte) {
	d.buf = *bytes.NewBuffer(b)
	d.dec.Reset(&d.buf, jsontext.AllowDuplicateNames(true)) // object.decode looks at names
}

// over is an error if anything follows what has been read.
func (d *lineDecoder) over() error {
	switch _, err := d.dec.ReadToken(); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	}
	return errors.New("data after the event")
}

// open reads the beginning of an object or array.
func (d *lineDecoder) open(kind jsontext.Kind) error {
	if k := d.dec.PeekKind(); k != kind && k != 0 {
		return wrongKind(k, kind)
	}
	_, err := d.dec.ReadToken()
	return err
}

// name reads the next member's name; more is false when the object is over.
func (d *lineDecoder) name() (name []byte, more bool, err error) {
	if d.dec.PeekKind() == '}' {
		_, err := d.dec.ReadToken()
		return nil, false, err
	}
	name, err = d.text()
	return name, err == nil, err
}

// each reads an array.
func (d *lineDecoder) each(element func() error) error {
	if err := d.open('['); err != nil {
		return err
	}
	for d.dec.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.dec.ReadToken()
	return err
}

func (d *lineDecoder) value(kind jsontext.Kind) (jsontext.Value, error) {
	v, err := d.dec.ReadValue()
	if err == nil && v.Kind() != kind {
		err = wrongKind(v.Kind(), kind)
	}
	return v, err
}

func wrongKind(is, want jsontext.Kind) error {
	if is == 'n' {
		return errors.New("is null: leave it out")
	}
	return fmt.Errorf("is %s, not %s", kindName(is), kindName(want))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return "a " + k.String()
}

// text is valid until the next call.
func (d *lineDecoder) text() ([]byte, error) {
	v, err := d.value('"')
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1], nil
	}
	d.scratch, err = jsontext.AppendUnquote(d.scratch[:0], v)
	return d.scratch, err
}

func (d *lineDecoder) whole(lo, hi int64) (int64, error) {
	v, err := d.value('0')
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return 0, fmt.Errorf("is %s, not an integer", v)
	case err != nil || n < lo || n > hi:
		return 0, fmt.Errorf("is %s, out of range (%d to %d)", v, lo, hi)
	}
	return n, nil
}

func (d *lineDecoder) real(below float64) (float64, error) {
	v, err := d.value('0')
	if err != nil {
		return 0, err
	}
	x, err := strconv.ParseFloat(string(v), 64)
	if err != nil || x < 0 || x >= below || math.Signbit(x) {
		return 0, fmt.Errorf("is %s, out of range (0 to below %v)", v, below)
	}
	return x, nil
}

func (d *lineDecoder) truth() (bool, error) {
	v, err := d.dec.ReadValue()
	if err != nil {
		return false, err
	}
	if k := v.Kind(); k != 't' && k != 'f' {
		return false, wrongKind(k, 't')
	}
	return v.Kind() == 't', nil
}

// interner keeps one copy of each name: a history repeats a few thousand of them.
type interner map[string]string

func (in interner) one(b []byte) string {
	if s, ok := in[string(b)]; ok {
		return s
	}
	s := string(b)
	in[s] = s
	return s
}
