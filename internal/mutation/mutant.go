package mutation

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is a package with one edit.
type Mutant struct {
	// ID names it: package, file, function, operator, and its number among those of that
	// operator in that function, from 1. Edits elsewhere do not change it.
	ID string
	// Line and Column are where the edit is.
	Line, Column int
	// Was and Is are the lines of the edit before and after, without their indent.
	Was, Is string

	file     string // its path
	source   []byte // of the whole file, edited
	from, to place  // of the function that it is in, if any
}

// Mutants lists all mutants of the package in a directory below root, in the order of its source.
func Mutants(root, dir string) ([]Mutant, error) {
	pkg, err := build.ImportDir(filepath.Join(root, dir), 0)
	if err != nil {
		return nil, err
	}
	var all []Mutant
	for _, name := range pkg.GoFiles {
		of, err := mutantsOf(filepath.Join(root, dir, name), dir+"/"+name)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

func mutantsOf(path, shown string) ([]Mutant, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) place { return place{files.Position(p).Line, files.Position(p).Column} }
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	var all []Mutant
	count := map[string]int{}
	for _, d := range file.Decls {
		name, w := nameOf(d), &walker{src: func(n ast.Node) string { return string(src[offset(n.Pos()):offset(n.End())]) }}
		var from, to place
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			w.function(f.Type, f.Body)
			from, to = at(f.Pos()), at(f.End())
		} else if !ok {
			w.walk(d)
		}
		for _, e := range w.edits {
			id := shown + ":" + name + ":" + e.operator
			count[id]++
			all = append(all, edited(src, offset(e.from), offset(e.to), e.text, Mutant{
				ID: fmt.Sprintf("%s:%d", id, count[id]), file: path,
				Line: at(e.from).line, Column: at(e.from).column, from: from, to: to,
			}))
		}
	}
	return all, nil
}

// nameOf is a function's name, with its receiver's type; of all other declarations "-".
func nameOf(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	switch {
	case !ok:
		return "-"
	case f.Recv == nil:
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// edited fills in a mutant's source and lines.
func edited(src []byte, from, to int, text string, m Mutant) Mutant {
	m.source = bytes.Join([][]byte{src[:from], []byte(text), src[to:]}, nil)
	begin := bytes.LastIndexByte(src[:from], '\n') + 1
	end := to + bytes.IndexByte(append(src[to:len(src):len(src)], '\n'), '\n')
	m.Was = oneLine(string(src[begin:end]))
	m.Is = oneLine(string(src[begin:from]) + text + string(src[to:end]))
	return m
}

// oneLine joins lines and leaves out their indents.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
