package property

import (
	"fmt"
	"slices"
	"strings"
)

// statement is what the lint needs to know of one CQL statement. It is found by
// tokens, not by a grammar: a statement that is not understood is reported, never
// passed over.
type statement struct {
	verb        string   // SELECT, INSERT, UPDATE, DELETE, TRUNCATE, or a verb of DDL
	keyspace    string   // "" if it names none
	table       string   // without keyspace; lower case unless quoted
	conditional bool     // IF
	using       string   // TTL or TIMESTAMP, "" for neither
	filtering   bool     // ALLOW FILTERING
	sets        []string // columns that it writes, in order
	names       []string // columns that its condition names, in order
}

// ddl are the verbs that change no rows.
var ddl = []string{"CREATE", "ALTER", "DROP", "USE", "GRANT", "REVOKE", "LIST", "DESCRIBE"}

// cqlToken is a word, a quoted name, a literal or a punctuation mark.
type cqlToken struct {
	text string // names: as compared; literals: empty
	word bool   // may be a keyword: an unquoted word
	name bool   // may name a table
}

func (t cqlToken) is(keyword string) bool { return t.word && strings.EqualFold(t.text, keyword) }

// ParseCQL reads a request's text: one statement or a batch of them.
func ParseCQL(cql string) ([]statement, error) {
	toks, err := tokenize(cql)
	if err != nil {
		return nil, err
	}
	parts, using, err := splitBatch(toks)
	if err != nil {
		return nil, err
	}
	var out []statement
	conditional := false
	for _, part := range parts {
		s, err := parseStatement(part)
		if err != nil {
			return nil, err
		}
		if s.using == "" {
			s.using = using
		}
		conditional = conditional || s.conditional
		out = append(out, s)
	}
	for i := range out {
		// One condition makes the whole batch conditional: it is applied or not.
		out[i].conditional = conditional
	}
	return out, nil
}

// withoutLiterals is a text without its literals. On a link texts that differ in nothing else are one
// shape, shown as it was first sent.
func withoutLiterals(cql string) string {
	toks, err := tokenize(cql)
	if err != nil {
		return cql
	}
	var b strings.Builder
	for _, t := range toks {
		if t.text == "" || t.text[0] >= '0' && t.text[0] <= '9' && !t.name {
			t.text = "?"
		}
		b.WriteString(t.text)
		b.WriteByte(' ')
	}
	return b.String()
}

// splitBatch returns the statements between BEGIN and APPLY BATCH, with what the
// batch uses; of a single statement, itself.
func splitBatch(toks []cqlToken) (parts [][]cqlToken, using string, err error) {
	for len(toks) > 0 && toks[len(toks)-1].text == ";" {
		toks = toks[:len(toks)-1]
	}
	if len(toks) == 0 {
		return nil, "", fmt.Errorf("it is empty")
	}
	if !toks[0].is("BEGIN") {
		for _, t := range toks {
			if t.text == ";" {
				return nil, "", fmt.Errorf("several statements without BEGIN BATCH")
			}
		}
		return [][]cqlToken{toks}, "", nil
	}
	n := len(toks)
	i := slices.IndexFunc(toks, func(t cqlToken) bool { return t.is("BATCH") })
	if i < 0 || i > 2 || n < i+3 || !toks[n-2].is("APPLY") || !toks[n-1].is("BATCH") {
		return nil, "", fmt.Errorf("a batch that does not read BEGIN … BATCH … APPLY BATCH")
	}
	toks = toks[i+1 : n-2]
	if len(toks) >= 3 && toks[0].is("USING") {
		using, toks = strings.ToUpper(toks[1].text), toks[3:]
	}
	// Statements of a batch need no semicolon between them: each verb in a place
	// where a statement can begin starts one.
	var part []cqlToken
	flush := func() {
		if len(part) > 0 {
			parts = append(parts, part)
		}
		part = nil
	}
	for _, t := range toks {
		switch {
		case t.text == ";":
			flush()
			continue
		case len(part) > 0 && (t.is("INSERT") || t.is("UPDATE") || t.is("DELETE")):
			flush()
		}
		part = append(part, t)
	}
	flush()
	if len(parts) == 0 {
		return nil, "", fmt.Errorf("an empty batch")
	}
	return parts, using, nil
}

func parseStatement(toks []cqlToken) (statement, error) {
	s := statement{verb: strings.ToUpper(toks[0].text)}
	if !toks[0].word {
		return s, fmt.Errorf("it begins with no word")
	}
	from := -1 // the keyword before the table's name
	at := func(keyword string) int {
		return slices.IndexFunc(toks, func(t cqlToken) bool { return t.is(keyword) })
	}
	switch s.verb {
	case "SELECT", "DELETE":
		from = at("FROM")
	case "INSERT":
		from = at("INTO")
	case "UPDATE":
		from = 0
	case "TRUNCATE":
		from = 0
		if len(toks) > 1 && (toks[1].is("TABLE") || toks[1].is("COLUMNFAMILY")) {
			from = 1
		}
	default:
		if slices.Contains(ddl, s.verb) {
			return parseDDL(s, toks), nil
		}
		return s, fmt.Errorf("unknown verb %q", toks[0].text)
	}
	table, ok := tableAt(toks, from+1)
	if from < 0 || !ok {
		return s, fmt.Errorf("no table is found in this %s", s.verb)
	}
	s.table = table
	if next := from + 2; next < len(toks) && toks[next].text == "." {
		s.keyspace = toks[next-1].text
	}
	toks = toks[from+1:]
	setting := false // in the list of what is written
	for i, t := range toks {
		next := cqlToken{}
		if i+1 < len(toks) {
			next = toks[i+1]
		}
		switch {
		case t.is("SET"), t.text == "(" && s.verb == "INSERT" && s.sets == nil:
			setting = true
		case t.is("WHERE"), t.is("VALUES"):
			setting = false
		case setting && t.name && !t.is("IF") && (s.verb == "INSERT" || next.text == "="):
			s.sets = append(s.sets, t.text)
		case s.conditional && t.name && slices.Contains([]string{"=", "<", ">", "!"}, next.text):
			s.names = append(s.names, t.text)
		case t.is("IF") && s.verb != "SELECT":
			s.conditional = true
		case t.is("ALLOW") && next.is("FILTERING"):
			s.filtering = true
		case t.is("USING") && (next.is("TTL") || next.is("TIMESTAMP")):
			s.using = strings.ToUpper(next.text)
		}
	}
	return s, nil
}

// parseDDL looks for one thing: rows that expire by the table's default.
func parseDDL(s statement, toks []cqlToken) statement {
	i := slices.IndexFunc(toks, func(t cqlToken) bool { return t.is("TABLE") })
	if i < 0 {
		return s
	}
	j := i + 1
	for j < len(toks) && (toks[j].is("IF") || toks[j].is("NOT") || toks[j].is("EXISTS")) {
		j++
	}
	s.table, _ = tableAt(toks, j)
	for k, t := range toks {
		if t.is("default_time_to_live") && k+2 < len(toks) && toks[k+1].text == "=" && toks[k+2].text != "0" {
			s.using = "TTL"
		}
	}
	return s
}

// tableAt is the table named at i, with or without its keyspace.
func tableAt(toks []cqlToken, i int) (string, bool) {
	if i >= len(toks) || !toks[i].name {
		return "", false
	}
	if i+2 < len(toks) && toks[i+1].text == "." && toks[i+2].name {
		i += 2
	}
	return toks[i].text, true
}

// tokenize splits CQL. Literals lose their text, so that nothing in them is taken
// for a keyword; comments are left out.
func tokenize(cql string) ([]cqlToken, error) {
	var out []cqlToken
	for i := 0; i < len(cql); {
		c := cql[i]
		rest := cql[i:]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case strings.HasPrefix(rest, "--") || strings.HasPrefix(rest, "//"):
			i += lengthUntil(rest, "\n")
		case strings.HasPrefix(rest, "/*"):
			i += lengthUntil(rest, "*/")
		case strings.HasPrefix(rest, "$$"):
			end := strings.Index(rest[2:], "$$")
			if end < 0 {
				return nil, fmt.Errorf("a string without its end")
			}
			out = append(out, cqlToken{})
			i += end + 4
		case c == '\'' || c == '"':
			text, n, ok := quoted(rest, c)
			if !ok {
				return nil, fmt.Errorf("a quote without its end")
			}
			t := cqlToken{}
			if c == '"' {
				t = cqlToken{text: text, name: true}
			}
			out = append(out, t)
			i += n
		case wordByte(c):
			n := 1
			for n < len(rest) && wordByte(rest[n]) {
				n++
			}
			letter := c < '0' || c > '9'
			out = append(out, cqlToken{text: strings.ToLower(rest[:n]), word: letter, name: letter})
			i += n
		default:
			out = append(out, cqlToken{text: string(c)})
			i++
		}
	}
	return out, nil
}

func lengthUntil(s, end string) int {
	if n := strings.Index(s, end); n >= 0 {
		return n + len(end)
	}
	return len(s)
}

// quoted reads a quoted text whose quotes are doubled within.
func quoted(s string, q byte) (text string, n int, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != q:
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == q:
			b.WriteByte(q)
			i++
		default:
			return b.String(), i + 1, true
		}
	}
	return "", 0, false
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
