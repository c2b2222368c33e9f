package ledger

import (
	"fmt"
	"slices"
)

// CheckQuotaWithout is CheckQuota as it would be if the pods of these UIDs were gone. Where a quota is, it waits
// for a writer, because what the pods are charged and the sums must be of one moment.
func (b *Book) CheckQuotaWithout(namespace string, uids []string, s Scope, charges map[string]Charge) error {
	if n := b.namespaces.load(namespace); n == nil || len(n.Quotas) == 0 {
		return nil
	}
	b.write.Lock()
	defer b.write.Unlock()
	n := b.namespaces.load(namespace)
	if n == nil {
		return nil
	}
	for i, uid := range uids {
		e := b.pods.load(uid)
		if e == nil || e.Namespace != namespace || slices.Contains(uids[:i], uid) {
			continue
		}
		rest, err := n.with(e, nil)
		if err != nil {
			return fmt.Errorf("%v cannot be taken off its namespace's books: %w", &e.Pod, err)
		}
		n = rest
	}
	return n.check(nil, s, func(family string) Charge { return charges[family] })
}
