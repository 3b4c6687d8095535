package checker

import (
	"slices"

	"fencepost/harness/record/history"
)

// foreignIssuers: sink calls for a run of a job that name another issuer than the shard
// that it was claimed from.
func (x *inquiry) foreignIssuers() {
	n := 0
	var call *op
	var of *claim
	for _, j := range x.a.jobs.list {
		if j.spec == nil || x.a.sink[j.spec.Resource] == nil {
			continue
		}
		s := x.a.sink[j.spec.Resource]
		for _, o := range append(slices.Clone(s.raises), s.effects...) {
			k := x.a.row[j.shard].claimOf(o.inv.Token)
			if k == nil || k.j != j || o.inv.Issuer == j.shard || history.Life(o.inv.Proc) == harness {
				continue
			}
			if n++; call == nil || o.inv.TS < call.inv.TS {
				call, of = o, k
			}
		}
	}
	if n == 0 {
		return
	}
	s := x.suspect("issuer-of-another-shard", written, n, "%s with another issuer than the shard that their run was claimed from; the first has %s for a job in %s", plural(n, "sink call"), call.inv.Issuer, of.j.shard)
	s.show(of.j.id, call.inv.TS, []string{call.inv.Proc}, x.change(RoleBefore, jobStep{of.w, of.c}),
		x.step(RoleMistake, call.inv, "%s by %s to %s names the issuer %s", call.inv.Op, call.inv.Proc, call.inv.Key, call.inv.Issuer))
}
