package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"fencepost/core/service/api"
)

// TestDescription: the document is valid, and has the routes that the code has.
func TestDescription(t *testing.T) {
	t.Parallel()
	doc, _ := described()
	if err := doc.Validate(context.Background()); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Error(doc.OpenAPI)
	}
	if a, b := operations(doc), api.Operations(); !slices.Equal(a, b) {
		t.Errorf("described are\n%s\nserved are\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

func operations(doc *openapi3.T) (out []string) {
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			out = append(out, fmt.Sprintf("%s %s %s open=%t", method, path, op.OperationID, op.Security != nil && len(*op.Security) == 0))
		}
	}
	slices.Sort(out)
	return out
}

// TestConforms: what the tests hold answers against can refuse them.
func TestConforms(t *testing.T) {
	t.Parallel()
	request := func(method, path, body string) *http.Request {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	jsonHeader := http.Header{"Content-Type": {"application/json"}}
	const good = `{"id": "a", "queue": "q", "duplicate": false, "inbox": false}`
	for name, c := range map[string]struct {
		request *http.Request
		status  int
		header  http.Header
		text    string
		want    bool
	}{
		"good":             {request("POST", "/jobs", `{"kind": "log", "then": [{"kind": "log"}]}`), 201, jsonHeader, good, true},
		"unknown request":  {request("POST", "/jobs", `{"kind": "log", "x": 1}`), 201, jsonHeader, good, false},
		"unknown in then":  {request("POST", "/jobs", `{"kind": "log", "then": [{"kind": "log", "x": 1}]}`), 201, jsonHeader, good, false},
		"no kind":          {request("POST", "/jobs", `{}`), 201, jsonHeader, good, false},
		"unknown answer":   {request("POST", "/jobs", `{"kind": "log"}`), 201, jsonHeader, `{"id": "a", "queue": "q", "duplicate": false, "inbox": false, "x": 1}`, false},
		"missing answer":   {request("POST", "/jobs", `{"kind": "log"}`), 201, jsonHeader, `{"id": "a"}`, false},
		"other type":       {request("POST", "/jobs", `{"kind": "log"}`), 400, jsonHeader, `{}`, false},
		"no problem":       {request("POST", "/jobs", `{}`), 400, http.Header{"Content-Type": {"application/problem+json"}}, `{"code": "x"}`, false},
		"no such path":     {request("POST", "/nowhere", `{}`), 200, jsonHeader, `{}`, false},
		"unknown in a job": {request("GET", "/jobs/a", ``), 200, jsonHeader, `{"id": "a", "queue": "q", "state": "pending", "inbox": false, "attempts": 0, "x": 1}`, false},
		"a good job":       {request("GET", "/jobs/a", ``), 200, jsonHeader, `{"id": "a", "queue": "q", "state": "pending", "inbox": false, "attempts": 0, "kind": "k"}`, true},
	} {
		if err := conforms(c.request, answer{status: c.status, header: c.header, text: []byte(c.text)}); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
