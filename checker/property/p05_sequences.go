package property

import "fmt"

// sequences: jobs that end, and their sequence continues or not against what they ask for.
func (x *Inquiry) sequences() {
	for _, a := range x.Jobs.Astray {
		text := fmt.Sprintf("job %s ends as %s, and its sequence ends there", a.Job.ID, a.State)
		if a.Next != nil {
			text = fmt.Sprintf("job %s ends as %s, and job %s follows it", a.Job.ID, a.State, a.Next.ID)
		}
		says := "is to end its sequence by that"
		if a.Next == nil {
			says = "is to have its sequence continue"
		}
		inv := a.Write.Main().Invoke
		sus := x.found("failure-policy-ignored", x.jobWeight(a.Job, shown), "%s: it %s", text, says)
		sus.showAt(a.Job.ID, inv, x.mistake(inv, "%s: %s", inv.Proc, text))
	}
}
