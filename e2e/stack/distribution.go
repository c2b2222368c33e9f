package stack

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Distribution shows durations: quantiles, and how many lie in each band.
func Distribution(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	all = slices.Sorted(slices.Values(all))
	quantile := func(percent int) time.Duration {
		return all[(len(all)-1)*percent/100].Round(time.Millisecond)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d pods: p50 %v, p90 %v, p99 %v, max %v\n", len(all), quantile(50), quantile(90), quantile(99),
		quantile(100))
	from, rest := time.Duration(0), all
	for _, to := range []time.Duration{50, 100, 200, 500, 1000, 2000, 5000, 10_000} {
		to *= time.Millisecond
		n := 0
		for n < len(rest) && rest[n] < to {
			n++
		}
		rest = rest[n:]
		if n > 0 {
			fmt.Fprintf(&b, "%6v to %6v %4d %s\n", from, to, n, strings.Repeat("*", (60*n+len(all)-1)/len(all)))
		}
		from = to
	}
	return b.String()
}
