package api

import (
	_ "embed"
	"net/http"
)

// Description is the API in OpenAPI 3.1.
//
//go:embed openapi.yaml
var Description []byte

func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(Description)
}
