package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/audit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
)

const auditUsage = `Compares the books of the extenders, the leading one's and the others', with a recomputation from the
pods, nodes and quotas that the API server has, and shows by device and namespace where they differ and
which pods make the difference. While anything differs it looks again, for six seconds: what changes
meanwhile is no drift. Nor is what is booked for pods whose Binding is on its way; it is shown apart.

Usage:
  kubectl phasegpu audit                            the extenders of the cluster
  kubectl phasegpu audit --ledger URL|FILE|-        an extender's /debug/ledger, from elsewhere
  kubectl phasegpu audit --ledger FILE -f OBJECTS   offline: pods, nodes and quotas from files, too

You need the rights to list pods, nodes and resourcequotas in all namespaces and, in the extenders'
namespace and without --ledger, to get leases (coordination.k8s.io) and pods/proxy.

Exit codes: 0 the books are right, 1 they drift, 2 not all of them could be compared.
`

func auditCommand(s streams) *cobra.Command {
	o := newOptions("audit", "compare the extenders' books with a recomputation", auditUsage)
	o.readsFiles()
	ledger := o.String("ledger", "", "`URL`, file or - of an extender's /debug/ledger, instead of the cluster's extenders")
	system := o.StringP("namespace", "n", "phasegpu-system", "`namespace` of the extenders")
	return o.runs(s, func(ctx context.Context, s streams) (int, error) {
		if _, err := o.check(&s); err != nil {
			return 0, err
		}
		switch {
		case o.NArg() > 0:
			return 0, fmt.Errorf("%q: audit takes no arguments, it compares all books (see audit --help)", o.Arg(0))
		case *ledger == "-" && slices.Contains(o.files, "-"):
			return 0, errors.New("standard input (-) can be read only once")
		case len(o.files) > 0 && *ledger == "":
			return 0, errors.New("-f gives the API server's objects: give the books to compare with --ledger FILE")
		}

		list, c, err := o.auditState(s)
		if err != nil {
			return 0, err
		}
		var books []source
		var problems []input.Problem
		if *ledger != "" {
			books, err = fromElsewhere(*ledger, s.in)
		} else {
			books, problems, err = c.extenders(ctx, *system)
		}
		if err != nil {
			report(s.err, problems)
			return 0, err
		}
		result := audit.Report{Books: []audit.Books{}, Notes: []audit.Note{}}
		for _, from := range books {
			compared, state, err := audit.Look(ctx, audit.Source{Page: from.page, State: list, Pauses: from.pauses})
			if err != nil {
				problems = append(problems, input.Problem{Source: input.Source{Object: from.name}, Err: err})
				continue
			}
			compared.Source, compared.Leads = from.name, from.leads
			result.Books = append(result.Books, compared)
			result.Notes = append([]audit.Note{}, state.Notes()...)
		}
		report(s.err, problems)
		err = o.write(s, result, func() error { return result.Text(s.out, s.screen) })
		switch {
		case err != nil:
			return 0, err
		case result.Drifts():
			return exitNegative, nil
		case result.Unsettled(), (&input.Set{Problems: problems}).Failed():
			return exitBadInput, nil
		}
		return exitFine, nil
	})
}

// lister lists what the API server has now.
type lister func(context.Context, phase.Release) (*audit.State, error)

// auditState returns where the API server's objects come from: files, or the cluster.
func (o *options) auditState(s streams) (lister, *cluster, error) {
	if len(o.files) == 0 {
		c, err := o.cluster()
		if err != nil {
			return nil, nil, fmt.Errorf("%w (offline, give --ledger FILE and -f FILE)", err)
		}
		return func(ctx context.Context, release phase.Release) (*audit.State, error) {
			state := audit.NewState(release)
			return state, c.each(ctx, []string{""}, metav1.NamespaceAll, into(state))
		}, c, nil
	}
	var set input.Set
	if err := o.read(&set, o.files, metav1.NamespaceDefault, s.in); err != nil {
		return nil, nil, err
	}
	report(s.err, set.Problems)
	if set.Failed() {
		return nil, nil, errors.New("nothing is compared with objects of which some cannot be read")
	}
	return func(_ context.Context, release phase.Release) (*audit.State, error) {
		state := audit.NewState(release)
		into(state).take(&set)
		return state, nil
	}, nil, nil
}

func into(state *audit.State) collector {
	return collector{state.AddNode, state.AddPod, state.AddQuota}
}
