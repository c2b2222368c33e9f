package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
)

// Quota returns the limits that a ResourceQuota sets on device families.
//
// A line that cannot be read becomes a limit of 0, and an error that names its key: a limit was wanted there, so until
// the line is fixed nothing new may use that family's dimension. The other lines are in the result as usual.
func Quota(q *corev1.ResourceQuota) (ledger.Quota, error) {
	quota := ledger.Quota{Namespace: q.Namespace, Name: q.Name, Selects: selects(q)}
	var keys []string
	for key := range q.Spec.Hard {
		keys = append(keys, string(key))
	}
	slices.Sort(keys)
	var problems []error
	for _, key := range keys {
		name, ok := strings.CutPrefix(key, "limits.")
		if !ok {
			name, ok = strings.CutPrefix(key, "requests.")
		}
		word, kind := classify.Resource(corev1.ResourceName(name))
		if !ok || kind != families.Memory && kind != families.Cores {
			continue
		}
		limit := ledger.Limit{Resource: key, Family: word, Dimension: ledger.Cores}
		if kind == families.Memory {
			limit.Dimension = ledger.Memory
		}
		var err error
		hard := q.Spec.Hard[corev1.ResourceName(key)]
		limit.Max, err = classify.Family(word).Limit(corev1.ResourceName(name), kind, hard)
		if err != nil {
			limit.Unreadable = err.Error()
			problems = append(problems, fmt.Errorf("key %s blocks until it is mended: %w", key, err))
		}
		quota.Limits = append(quota.Limits, limit)
	}
	return quota, errors.Join(problems...)
}

// selects returns a function that reports whether a quota's scopes select a pod, nil if it has no scopes. All scopes
// must match, as in the API server's pod evaluator; a scope that is not about pods matches none.
func selects(q *corev1.ResourceQuota) func(ledger.Scope) bool {
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, name := range q.Spec.Scopes {
		exists := corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: corev1.ScopeSelectorOpExists}
		scopes = append(scopes, exists)
	}
	if q.Spec.ScopeSelector != nil {
		scopes = append(scopes, q.Spec.ScopeSelector.MatchExpressions...)
	}
	if len(scopes) == 0 {
		return nil
	}
	return func(s ledger.Scope) bool {
		for i := range scopes {
			if !matches(&scopes[i], s) {
				return false
			}
		}
		return true
	}
}

func matches(scope *corev1.ScopedResourceSelectorRequirement, s ledger.Scope) bool {
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return s.Terminating
	case corev1.ResourceQuotaScopeNotTerminating:
		return !s.Terminating
	case corev1.ResourceQuotaScopeBestEffort:
		return s.BestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !s.BestEffort
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return s.CrossNamespaceAffinity
	case corev1.ResourceQuotaScopePriorityClass:
		return matchesClass(scope, s.PriorityClass)
	default:
		return false
	}
}

// matchesClass evaluates a requirement on the priority class. A pod without a class is in no set of classes.
func matchesClass(scope *corev1.ScopedResourceSelectorRequirement, class string) bool {
	among := class != "" && slices.Contains(scope.Values, class)
	switch scope.Operator {
	case corev1.ScopeSelectorOpExists:
		return class != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	case corev1.ScopeSelectorOpIn:
		return among
	case corev1.ScopeSelectorOpNotIn:
		return !among
	default:
		return false
	}
}
