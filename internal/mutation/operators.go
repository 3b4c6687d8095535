package mutation

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// swaps are the tokens that operators exchange: by operator, each token with its substitute.
var swaps = map[string]map[token.Token]token.Token{
	"negate": {token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS,
		token.GTR: token.LEQ, token.LEQ: token.GTR},
	"boundary": {token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR},
	"logic":    {token.LAND: token.LOR, token.LOR: token.LAND},
	"arithmetic": {token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
		token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN, token.INC: token.DEC, token.DEC: token.INC},
}

// names are identifiers that an operator exchanges. Those of package time are units.
var names = map[string]struct{ operator, instead string }{
	"true": {"bool", "false"}, "false": {"bool", "true"},
	"min": {"minmax", "max"}, "max": {"minmax", "min"},
	"time.Minute": {"unit", "time.Second"}, "time.Second": {"unit", "time.Millisecond"}, "time.Millisecond": {"unit", "time.Second"},
	"time.Hour": {"unit", "time.Minute"}, "time.Microsecond": {"unit", "time.Millisecond"},
}

// edit replaces the source between two places.
type edit struct {
	operator string
	from, to token.Pos
	text     string
}

// walker collects the edits of one function.
type walker struct {
	src   func(ast.Node) string
	edits []edit
	// results are those of the functions around a node, the innermost last.
	results []*ast.FieldList
}

func (w *walker) add(operator string, from, to token.Pos, text string) {
	w.edits = append(w.edits, edit{operator, from, to, text})
}

func (w *walker) swap(at token.Pos, tok token.Token) {
	for _, operator := range []string{"negate", "boundary", "logic", "arithmetic"} {
		if to, ok := swaps[operator][tok]; ok {
			w.add(operator, at, at+token.Pos(len(tok.String())), to.String())
		}
	}
}

// walk adds the edits of a node and of what is in it.
func (w *walker) walk(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			w.function(n.Type, n.Body)
			return false
		case *ast.CallExpr:
			if logs(n) {
				return false
			}
			w.name(n.Fun)
		case *ast.BinaryExpr:
			w.swap(n.OpPos, n.Op)
		case *ast.IncDecStmt:
			w.swap(n.TokPos, n.Tok)
		case *ast.BasicLit:
			w.constant(n)
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				w.name(n)
			}
		case *ast.SelectorExpr:
			w.name(n)
		case *ast.IfStmt:
			w.condition(n.Cond)
		case *ast.ForStmt:
			w.condition(n.Cond)
		case *ast.ReturnStmt:
			if w.noError(n) {
				w.walk(n.Results[len(n.Results)-1])
				return false
			}
		case *ast.AssignStmt:
			w.swap(n.TokPos, n.Tok)
		}
		if s, ok := n.(ast.Stmt); ok {
			w.remove(s)
		}
		return true
	})
}

func (w *walker) function(t *ast.FuncType, body *ast.BlockStmt) {
	w.results = append(w.results, t.Results)
	w.walk(body)
	w.results = w.results[:len(w.results)-1]
}

// logs reports whether a call is one of a logger.
func logs(c *ast.CallExpr) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	level := s.Sel.Name == "Debug" || s.Sel.Name == "Info" || s.Sel.Name == "Warn" || s.Sel.Name == "Error"
	var of string
	switch x := s.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	}
	return level && strings.Contains(strings.ToLower(of), "log")
}

func (w *walker) name(n ast.Expr) {
	if to, ok := names[w.src(n)]; ok {
		w.add(to.operator, n.Pos(), n.End(), to.instead)
	}
}

// constant moves an integer by one, and makes it zero.
func (w *walker) constant(n *ast.BasicLit) {
	i, err := strconv.ParseInt(n.Value, 0, 64)
	if n.Kind != token.INT || err != nil {
		return
	}
	w.add("plus-one", n.Pos(), n.End(), fmt.Sprint(i+1))
	if i != 0 {
		w.add("minus-one", n.Pos(), n.End(), fmt.Sprint(i-1))
	}
	if i > 1 {
		w.add("zero", n.Pos(), n.End(), "0")
	}
}

// condition negates a condition that no other operator negates.
func (w *walker) condition(c ast.Expr) {
	if c == nil {
		return
	}
	if b, ok := c.(*ast.BinaryExpr); ok {
		if _, ok := swaps["negate"][b.Op]; ok {
			return
		}
	}
	w.add("negate", c.Pos(), c.End(), "!("+w.src(c)+")")
}

// noError returns nil in place of an error. It reports whether all else that is returned is
// constant: beside an error nobody looks at that.
func (w *walker) noError(n *ast.ReturnStmt) (alone bool) {
	results := w.results[len(w.results)-1]
	if results == nil || len(n.Results) != results.NumFields() {
		return false
	}
	last, ok := results.List[len(results.List)-1].Type.(*ast.Ident)
	value := n.Results[len(n.Results)-1]
	if !ok || last.Name != "error" || w.src(value) == "nil" {
		return false
	}
	// The value is still used, so that the mutant compiles.
	w.add("no-error", value.Pos(), value.End(), "func() error { _ = "+w.src(value)+"; return nil }()")
	return !slices.ContainsFunc(n.Results[:len(n.Results)-1], func(e ast.Expr) bool {
		_, literal := e.(*ast.BasicLit)
		_, name := e.(*ast.Ident)
		return !literal && !name
	})
}

// remove has a statement never run. It stays in the source, so that what it uses is used.
func (w *walker) remove(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			return
		}
	case *ast.ReturnStmt:
		if len(s.Results) > 0 {
			return // most would not compile; what they return is changed by others
		}
	case *ast.ExprStmt:
		if c, ok := s.X.(*ast.CallExpr); ok && logs(c) {
			return
		}
	case *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.BranchStmt:
	default:
		return
	}
	w.add("remove", s.Pos(), s.End(), "if false { "+w.src(s)+" }")
}
