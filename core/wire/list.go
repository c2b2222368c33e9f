package wire

import "strings"

// DecodeCordon reads the comma-separated list of device ids that take nothing new.
func DecodeCordon(text string) []string { return DecodeList(text) }

// DecodeList reads a comma-separated list: values trimmed, empty ones dropped.
func DecodeList(text string) []string {
	var values []string
	for value := range strings.SplitSeq(text, ",") {
		if value = strings.TrimSpace(value); value != "" {
			values = append(values, value)
		}
	}
	return values
}
