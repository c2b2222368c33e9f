package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/audit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
)

const auditUsage = `Compares the books of all extenders with a recomputation from the pods, nodes and quotas that the API server
has, and shows by device and namespace where they differ and which pods make the difference. While anything
differs it looks again, for six seconds: what changes meanwhile is no drift. Nor is what is booked for pods
whose Binding is on its way; it is shown apart.

Usage:
  kubectl phasegpu audit                            the extenders of the cluster
  kubectl phasegpu audit --ledger URL|FILE|-        an extender's /debug/ledger, from elsewhere
  kubectl phasegpu audit --ledger FILE -f OBJECTS   offline: pods, nodes and quotas from files, too

You need the rights to list pods, nodes and resourcequotas in all namespaces and, in the extenders'
namespace and without --ledger, to get leases (coordination.k8s.io) and pods/proxy.

Exit codes: 0 the books are right, 1 they drift, 2 not all of them could be compared.
`

func auditCommand(s session) *cobra.Command {
	o := newOptions(s, "audit", "compare the extenders' books with a recomputation", auditUsage)
	ledger := o.String("ledger", "", "`URL`, file or - of an extender's /debug/ledger, not the cluster's")
	system := o.StringP("namespace", "n", "phasegpu-system", "`namespace` of the extenders")
	return o.runs(func(ctx context.Context) (int, error) {
		if _, err := o.check(*ledger); err != nil {
			return 0, err
		}
		switch {
		case o.NArg() > 0:
			return 0, fmt.Errorf("%q: audit takes no arguments, it compares all books (see audit --help)", o.Arg(0))
		case len(o.files) > 0 && *ledger == "":
			return 0, errors.New("-f gives the API server's objects: give the books to compare with --ledger FILE")
		}
		from, err := o.source(ctx, "--ledger FILE and -f FILE")
		if err != nil {
			return 0, err
		}
		var books []extender
		var set input.Set
		if *ledger != "" {
			books, err = fromElsewhere(*ledger, o.In)
		} else if c, ok := from.(*cluster); ok {
			books, set.Problems, err = c.extenders(ctx, *system)
		}
		if err != nil {
			o.writeProblems(set.Problems)
			return 0, err
		}
		state := func(ctx context.Context, release phase.Release) (*audit.State, error) {
			state := audit.NewState(release)
			return state, from.each(ctx, allPods(), metav1.NamespaceAll, state)
		}
		result := &audit.Report{Books: []audit.Books{}, Notes: []audit.Note{}}
		for _, e := range books {
			compared, last, err := audit.Compare(ctx, audit.Source{Read: e.read, List: state, Pauses: e.pauses})
			if err != nil {
				set.Fail(input.Source{Object: e.name}, err)
				continue
			}
			compared.Source, compared.Leads = e.name, e.leads
			result.Books = append(result.Books, compared)
			result.Notes = append([]audit.Note{}, last.Notes()...)
		}
		o.writeProblems(set.Problems)
		code, err := o.write(result, result.Drifts())
		if err == nil && code == exitFine && (result.Unsettled() || set.Failed()) {
			code = exitBadInput
		}
		return code, err
	})
}
