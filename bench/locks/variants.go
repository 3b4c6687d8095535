package locks

import (
	"context"
	"slices"

	"fencepost/core/lock"
)

// Core is the name of what is measured if no variant is: core/lock as it is.
const Core = "core"

// Variant is a slow-down that is planted in what is measured, to see that a comparison of two
// results finds it. It breaks no promise, so no run can turn red by it: package system, which
// lists what a check must find, does not have it.
type Variant struct {
	Name, About string
	// renew makes another way to renew a lease of the one that there is; nil: leaves it.
	renew func(renewal) renewal
}

// renewal renews a lease by hand.
type renewal func(context.Context, *lock.Lease) error

var variants = []Variant{
	{
		Name: "broken/renews-twice", About: "every renewal by hand is done twice, in the arms LR",
		renew: func(once renewal) renewal {
			return func(ctx context.Context, l *lock.Lease) error {
				if err := once(ctx, l); err != nil {
					return err
				}
				return once(ctx, l)
			}
		},
	},
}

// Systems are the names of what can be measured.
func Systems() []string {
	out := []string{Core}
	for _, v := range variants {
		out = append(out, v.Name)
	}
	return out
}

// FindVariant is the variant of a name; that of Core, or of no name, changes nothing.
func FindVariant(name string) (v Variant, ok bool) {
	if name == "" || name == Core {
		return Variant{}, true
	}
	if i := slices.IndexFunc(variants, func(v Variant) bool { return v.Name == name }); i >= 0 {
		return variants[i], true
	}
	return Variant{}, false
}

// renewal is the way in which the arms LR renew their leases.
func (v Variant) renewal() renewal {
	var r renewal = func(ctx context.Context, l *lock.Lease) error { return l.Renew(ctx) }
	if v.renew != nil {
		r = v.renew(r)
	}
	return r
}
