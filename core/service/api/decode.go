package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// bodyOf reads the body of a request that has no parameters.
func bodyOf(r *http.Request, out any) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return decode(r, out)
}

// decode reads a request's body into out: one JSON value, every name known, none twice.
func decode(r *http.Request, out any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return problem{Status: http.StatusUnsupportedMediaType, Code: "media-type", Detail: "the body must be JSON, with Content-Type: application/json (curl --json)"}
	}
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problem{Status: http.StatusRequestEntityTooLarge, Code: "too-large", Detail: fmt.Sprintf("the body has more than %d bytes: put what is large elsewhere and name it in the payload", large.Limit)}
	case err != nil:
		return invalid("body", "could not be read: "+err.Error())
	}
	return decodeBody(body, out)
}

// noNull refuses null, which would be as good as nothing, but for a payload.
var noNull = json.UnmarshalFromFunc(func(d *jsontext.Decoder, v any) error {
	if _, payload := v.(*jsontext.Value); !payload && d.PeekKind() == 'n' {
		return errors.New("it is null: leave it out instead")
	}
	return errors.ErrUnsupported
})

func decodeBody(body []byte, out any) error {
	err := json.Unmarshal(body, out, json.RejectUnknownMembers(true), json.WithUnmarshalers(noNull))
	var at jsontext.Pointer
	var semantic *json.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &semantic):
		at = semantic.JSONPointer
	case errors.As(err, &syntax):
		at = syntax.JSONPointer
	}
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return invalid(fieldAt(at), "is not known here")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return invalid(fieldAt(at), "occurs twice")
	case syntax != nil:
		return invalid(fieldAt(at), "is not JSON: "+strings.TrimPrefix(syntax.Err.Error(), "jsontext: "))
	case semantic != nil && semantic.Err != nil:
		return invalid(fieldAt(at), "cannot be used: "+semantic.Err.Error())
	case semantic != nil:
		return invalid(fieldAt(at), fmt.Sprintf("cannot be a JSON %s", semantic.JSONKind))
	}
	return invalid("body", err.Error())
}

// fieldAt writes a JSON pointer as then[0].kind.
func fieldAt(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			fmt.Fprintf(&b, "[%s]", token)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	if b.Len() == 0 {
		return "body"
	}
	return b.String()
}

// parameters reads the query, whose names must be among those that are known, each at
// most once.
func parameters(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("query", "cannot be read")
	}
	for name, values := range q {
		switch {
		case !slices.Contains(known, name):
			return nil, invalid(name, "is not a parameter of this path")
		case len(values) > 1:
			return nil, invalid(name, "occurs twice")
		}
	}
	return q, nil
}

// number reads a parameter that is a whole number; missing: 0.
func number(q url.Values, name string) (int, error) {
	text := q.Get(name)
	if text == "" && !q.Has(name) {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, invalid(name, fmt.Sprintf("is %q: want a whole number from 1", text))
	}
	return n, nil
}
