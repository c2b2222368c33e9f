package server

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// decode reads JSON into arguments. Those of Filter and Prioritize name every node of the cluster, and reading each
// name with encoding/json takes longer than fitting the pod there. So the list of names is cut out and read here,
// if it is the last field and as plain as kube-scheduler writes it; all else is encoding/json's.
func decode(body []byte, into any) error {
	args, ok := into.(*extenderv1.ExtenderArgs)
	if !ok {
		return json.Unmarshal(body, into)
	}
	// A key: within a string the quotes would have backslashes.
	at := bytes.LastIndex(body, []byte(`"NodeNames":[`))
	if at < 0 {
		return json.Unmarshal(body, into)
	}
	names, ok := plainNames(body[at+len(`"NodeNames":`):])
	if !ok {
		return json.Unmarshal(body, into)
	}
	// That this is valid shows that the key is the outermost object's.
	if json.Unmarshal(slices.Concat(body[:at], []byte(`"NodeNames":null}`)), args) != nil {
		*args = extenderv1.ExtenderArgs{}
		return json.Unmarshal(body, into)
	}
	args.NodeNames = &names
	return nil
}

// plainNames reads a list of strings of printable ASCII without escapes or blanks between, and the end of the
// object after it. ok is false if it is anything else.
func plainNames(text []byte) (names []string, ok bool) {
	list, ok := bytes.CutSuffix(text, []byte("]}"))
	if !ok {
		return nil, false
	}
	if len(list) == 1 {
		return []string{}, true
	}
	all := string(list[1:])
	names = make([]string, 0, strings.Count(all, ",")+1)
	for rest := all; ; {
		if rest == "" || rest[0] != '"' {
			return nil, false
		}
		end := 1
		for end < len(rest) && rest[end] != '"' {
			if c := rest[end]; c < ' ' || c > '~' || c == '\\' {
				return nil, false
			}
			end++
		}
		if end == len(rest) {
			return nil, false
		}
		names = append(names, rest[1:end])
		rest = rest[end+1:]
		if rest == "" {
			return names, true
		}
		if rest[0] != ',' {
			return nil, false
		}
		rest = rest[1:]
	}
}
