package chart

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"fencepost/harness/record/history"
	"fencepost/reports/measure"
)

// EventText says in a few words what an event is: the operation with its tokens
// and versions, or the note.
func EventText(e history.Event) string {
	if e.Type == history.Note {
		return noteText(e)
	}
	return OperationText(history.Operation{Invoke: e, End: e, Outcome: e.Type})
}

// OperationText says what an operation did and how it ended.
func OperationText(op history.Operation) string {
	inv, end := op.Invoke, op.End
	s := string(inv.Op)
	switch inv.Op {
	case history.OpAcquire, history.OpSeal:
		if inv.To != nil {
			s += fmt.Sprintf(" token %d", inv.To.Fence)
		}
		if inv.Takeover {
			s += ", takeover"
			if inv.From != nil {
				s += fmt.Sprintf(" of %d", inv.From.Fence)
			}
		}
	case history.OpRenew:
		if inv.To != nil {
			s += fmt.Sprintf(" token %d, beat %d", inv.To.Fence, inv.To.Beat)
		}
	case history.OpRelease:
		if inv.From != nil {
			s += fmt.Sprintf(" token %d", inv.From.Fence)
		}
	case history.OpRead:
		if end.Row != nil {
			s += " " + VersionText(end.Row)
		}
	case history.OpLock:
		s = "lock wait"
		if end.Token != 0 {
			s += fmt.Sprintf(", token %d", end.Token)
		}
	case history.OpRaise:
		s += fmt.Sprintf(" token %d", inv.Token)
	case history.OpGet:
		if end.Value != nil {
			s += fmt.Sprintf(" = %d", *end.Value)
		}
	case history.OpEffect:
		if inv.Value != nil {
			s += fmt.Sprintf(" = %d", *inv.Value)
		}
		s += fmt.Sprintf(", token %d", inv.Token)
	default:
		if inv.Token != 0 {
			s += fmt.Sprintf(" token %d", inv.Token)
		}
	}
	return s + ending(op)
}

func ending(op history.Operation) string {
	var parts []string
	if r := op.End.Result; r != "" && r != "applied" {
		parts = append(parts, r)
		if op.End.Seen != 0 {
			parts = append(parts, fmt.Sprintf("seen %d", op.End.Seen))
		}
	}
	switch {
	case op.Outcome == history.Fail && len(parts) == 0:
		parts = append(parts, "fail")
		if op.End.Row != nil {
			parts = append(parts, "row is "+VersionText(op.End.Row))
		}
	case op.Outcome == history.Unknown && op.End.TS == 0:
		parts = append(parts, "no answer")
	case op.Outcome == history.Unknown:
		parts = append(parts, "unknown")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// VersionText writes a version as token and beat.
func VersionText(v *history.Version) string {
	switch {
	case v == nil:
		return "?"
	case v.Absent:
		return "no row"
	case v.Holder == "":
		return fmt.Sprintf("%d.%d free", v.Fence, v.Beat)
	}
	return fmt.Sprintf("%d.%d of %s", v.Fence, v.Beat, v.Holder)
}

func noteText(e history.Event) string {
	switch e.Op {
	case history.NoteStart:
		return fmt.Sprintf("starts, token %d", e.Token)
	case history.NoteFinish:
		return fmt.Sprintf("finishes, token %d", e.Token)
	case history.NoteLeaseLost:
		return fmt.Sprintf("lease lost, token %d", e.Token)
	case history.NoteCrash:
		if e.Error != "" && !strings.HasPrefix(e.Error, "SIG") {
			return "dies"
		}
		return "killed"
	case history.NoteLife:
		if e.Life() != nil {
			return e.Life().Name + ": " + e.Life().Ending()
		}
	case history.NoteExit:
		return "exits"
	case history.NotePoint:
		return "at " + e.Point()
	case history.NotePhase:
		return "phase " + e.Phase()
	case history.NoteFault:
		if e.Fault() != nil {
			return e.Fault().Action + " " + e.Fault().ID + " " + e.Fault().Name
		}
	case history.NoteLedger:
		if e.Ledger() != nil {
			return ledgerText(*e.Ledger())
		}
	case history.NoteStatement:
		if e.Statement() != nil {
			return e.Statement().CQL
		}
	case history.NoteSerial:
		if r := e.SerialRead(); r != nil {
			return fmt.Sprintf("the link of %s carries a read of %s in consensus", e.Key, r.Table)
		}
	case history.NoteAnswer:
		if a := e.Asked(); a != nil {
			return fmt.Sprintf("%s of %s: %s", a.Op, a.Worker, cmp.Or(e.Result, e.Error, "answered"))
		}
	case history.NoteArm:
		if a := e.Armed(); a != nil {
			return fmt.Sprintf("%s waited for %s: %s", a.Fault, e.Point(), cmp.Or(a.Proc, "nobody came"))
		}
	case history.NoteHit:
		if h := e.Hit(); h != nil {
			return fmt.Sprintf("%s at %s", h.Proc, e.Point())
		}
	}
	return string(e.Op)
}

func ledgerText(l history.LedgerEntry) string {
	s := fmt.Sprintf("ledger %d: %s token %d", l.Seq, l.Kind, l.Token)
	if l.Value != nil {
		s += fmt.Sprintf(" = %d", *l.Value)
	}
	return s
}

// GrantText says what a grant was, for a tooltip.
func GrantText(g measure.Grant, start int64) string {
	at := func(ts int64) string { return measure.FormatDuration(time.Duration(ts - start)) }
	if !g.Held {
		return fmt.Sprintf("%s, token %d: %s's acquire took effect, but it never learnt of it in time (row taken by %s)", g.Lock, g.Token,
			g.Proc, at(g.From))
	}
	how := "granted"
	if g.Takeover {
		how = "taken over"
	}
	s := fmt.Sprintf("%s, token %d: %s by %s at %s, entitled for %s (ended by %s)", g.Lock, g.Token, how, g.Proc, at(g.From),
		measure.FormatDuration(time.Duration(g.To-g.From)), g.EndedBy)
	if g.EndedBy != measure.EndedRelease && g.RowUntil > g.To {
		s += fmt.Sprintf("; the row named it for another %s", measure.FormatDuration(time.Duration(g.RowUntil-g.To)))
	}
	return s
}
