// Package property judges what happened in a run (package past) by the properties of
// docs/properties.md.
//
// Each property is a row, a [Check]: the function that judges it, the part of that which holds
// before the end, the rules that explain its violations with the mechanisms that they can name,
// and what a run without it cannot show. Its file, pNN_name.go, registers the row in init. Rules
// that need room of their own stand in pNN_suspects.go. Everything that lists properties is made
// of these rows ([All]).
//
// A [Judgement] is one check of one history. It holds the run's past, which it cannot change, and
// the few results that one property has for another: the jobs that P5 found open, the lateness of
// P12, the recovery of P11, the bounds of P15. P14 comes last, as it looks at what the others have
// checked.
//
// The linear-time checks come first because they name the two events that contradict each other.
// Porcupine (package linear) runs beside them, and alone over what they do not look at.
//
// An [Inquiry] asks the rules of all properties for [Suspect] mechanisms. What they are worth
// together, package explain says.
//
// To add a property, see CONTRIBUTING.md.
package property
