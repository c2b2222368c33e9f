package bind

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/phasegpu/phasegpu/core/ledger"
)

// Why a binding failed, for metrics: a closed set.
const (
	notLeading = "not_leading" // the scheduler beside this extender does not lead, or the books are not up to date yet
	noTurn     = "gate"        // its turn on the node did not come in time
	noRoom     = "no_room"     // the node has changed since Filter
	overQuota  = "quota"
	gone       = "gone"     // deleted, or created again under its name
	stopping   = "stopping" // the extender ends
	other      = "other"    // the API server refused, or could not be asked; the pod is bound already; or a panic
)

// Reasons lists the reasons of Metrics.BindFailed.
func Reasons() []string {
	return []string{notLeading, noTurn, noRoom, overQuota, gone, stopping, other}
}

// failure is an error with the reason for it.
type failure struct {
	reason string
	error
}

func (f *failure) Unwrap() error { return f.error }

// because gives an error its reason; nil stays nil.
func because(reason string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{reason, err}
}

// reasonOf classifies the error of an attempt.
func reasonOf(err error) string {
	var f *failure
	var quota *ledger.QuotaError
	switch {
	case errors.Is(err, errStopped):
		return stopping
	case errors.As(err, &quota):
		return overQuota
	case errors.Is(err, ledger.ErrNode):
		return noRoom
	case errors.Is(err, errGone), apierrors.IsNotFound(err):
		return gone
	case errors.As(err, &f):
		return f.reason
	}
	return other
}
