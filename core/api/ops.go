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

// queueView is a queue and who owns its shards.
type queueView struct {
	Queue  string      `json:"queue"`
	Shards []shardView `json:"shards"`
}

type shardView struct {
	Shard int    `json:"shard"`
	Owner string `json:"owner,omitempty"`
	Addr  string `json:"addr,omitempty"`
	Fence int64  `json:"fence"`
	Ticks int64  `json:"ticks"`
}

func (s *server) listQueues(r *http.Request) (reply, error) {
	if _, err := parameters(r); err != nil {
		return reply{}, err
	}
	out := page[queueView]{Items: []queueView{}}
	for _, q := range s.o.Reader.Queues() {
		shards, err := s.o.Reader.ShardsOf(r.Context(), q.Name)
		if err != nil {
			return reply{}, err
		}
		v := queueView{Queue: q.Name}
		for _, sh := range shards {
			v.Shards = append(v.Shards, shardView{sh.Shard, sh.Owner, sh.Addr, sh.Fence, sh.Tick})
		}
		out.Items = append(out.Items, v)
	}
	return reply{body: out}, nil
}
