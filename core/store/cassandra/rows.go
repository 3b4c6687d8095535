package cassandra

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/gocql/gocql"
)

// nulls says what a null column becomes.
type nulls int

const (
	nullNil  nulls = iota // nil
	nullZero              // the type's zero value
)

const appliedColumn = "[applied]"

// readRows reads all rows, all pages, and closes the iterator.
func readRows(iter *gocql.Iter, n nulls) ([]map[string]any, error) {
	data, err := iter.RowData()
	if err != nil {
		return nil, errors.Join(err, iter.Close())
	}
	var rows []map[string]any
	for {
		// Pointers to pointers, so that the driver can say null.
		dest := make([]any, len(data.Values))
		for i, v := range data.Values {
			dest[i] = reflect.New(reflect.TypeOf(v)).Interface()
		}
		if !iter.Scan(dest...) {
			break
		}
		row := make(map[string]any, len(dest))
		for i, d := range dest {
			p := reflect.ValueOf(d).Elem()
			switch {
			case !p.IsNil():
				row[data.Columns[i]] = plain(p.Elem().Interface())
			case n == nullZero:
				row[data.Columns[i]] = plain(reflect.Zero(p.Type().Elem()).Interface())
			default:
				row[data.Columns[i]] = nil
			}
		}
		rows = append(rows, row)
	}
	return rows, iter.Close()
}

// plain replaces the driver's own types; a zero UUID is "".
func plain(v any) any {
	if id, ok := v.(gocql.UUID); ok {
		if id == (gocql.UUID{}) {
			return ""
		}
		return id.String()
	}
	return v
}

// executeBatch sends a conditional batch and reads its rows, [applied] included.
// The driver's only way to the rows of a batch panics when the answer has no
// [applied] column or its first row cannot be read.
func executeBatch(s *gocql.Session, b *gocql.Batch) (rows []map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			rows, err = nil, fmt.Errorf("%w (%v)", errNoApplied, p)
		}
	}()
	first := map[string]any{}
	applied, iter, err := s.MapExecuteBatchCAS(b, first)
	if err != nil {
		return nil, err
	}
	first[appliedColumn] = applied
	rows = append(rows, first)
	for row := (map[string]any{}); iter.MapScan(row); row = map[string]any{} {
		rows = append(rows, row)
	}
	for _, row := range rows {
		for k, v := range row {
			row[k] = plain(v)
		}
	}
	return rows, iter.Close()
}

// splitApplied takes [applied] out of the rows of a conditional statement. An
// answer of [applied] alone has no rows.
func splitApplied(all []map[string]any) (applied bool, rows []map[string]any, err error) {
	for i, row := range all {
		a, ok := row[appliedColumn].(bool)
		if !ok {
			return false, nil, errNoApplied
		}
		if i == 0 {
			applied = a
		}
		delete(row, appliedColumn)
		if len(row) > 0 && !applied {
			rows = append(rows, row)
		}
	}
	if len(all) == 0 {
		return false, nil, errNoApplied
	}
	return applied, rows, nil
}

// columns reads a row's columns. lacking: one was null, or of another type.
type columns struct {
	row     map[string]any
	lacking bool
}

func column[T any](c *columns, name string) T {
	v, ok := c.row[name].(T)
	c.lacking = c.lacking || !ok
	return v
}

// recentOf reads the column recent of the table ids.
func recentOf(row map[string]any) map[int64]string {
	out := map[int64]string{}
	if m, ok := row["recent"].(map[int64]gocql.UUID); ok {
		for lo, id := range m {
			out[lo] = id.String()
		}
	}
	return out
}
