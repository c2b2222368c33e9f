package server

import (
	"encoding/json"
	"strconv"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// encode writes a result as JSON. Those of Filter and Prioritize name every node of the cluster, and kube-scheduler
// waits for them before it looks at the next pod; encoding/json would sort the names and reflect on each.
func encode(result any) ([]byte, error) {
	switch r := result.(type) {
	case extenderv1.HostPriorityList:
		return scores(r), nil
	case *extenderv1.ExtenderFilterResult:
		if r.Nodes == nil {
			return filtered(r), nil
		}
	}
	return json.Marshal(result)
}

func scores(list extenderv1.HostPriorityList) []byte {
	if list == nil {
		return []byte("null")
	}
	n := len("[]")
	for i := range list {
		n += len(list[i].Host) + len(`{"Host":"","Score":10},`)
	}
	b := append(make([]byte, 0, n), '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, `{"Host":`...), list[i].Host)
		b = strconv.AppendInt(append(b, `,"Score":`...), list[i].Score, 10)
		b = append(b, '}')
	}
	return append(b, ']')
}

func filtered(r *extenderv1.ExtenderFilterResult) []byte {
	b := make([]byte, 0, room(r))
	b = append(b, `{"Nodes":null,"NodeNames":`...)
	if r.NodeNames == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, '[')
		for i, name := range *r.NodeNames {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, name)
		}
		b = append(b, ']')
	}
	b = appendMap(append(b, `,"FailedNodes":`...), r.FailedNodes)
	b = appendMap(append(b, `,"FailedAndUnresolvableNodes":`...), r.FailedAndUnresolvableNodes)
	return append(appendString(append(b, `,"Error":`...), r.Error), '}')
}

// room is about how many bytes a result takes.
func room(r *extenderv1.ExtenderFilterResult) int {
	n := 1024 + 96*(len(r.FailedNodes)+len(r.FailedAndUnresolvableNodes)) // to go over them would take longer
	if r.NodeNames != nil {
		for _, name := range *r.NodeNames {
			n += len(name) + len(`"",`)
		}
	}
	return n
}

func appendMap(b []byte, m extenderv1.FailedNodesMap) []byte {
	if m == nil {
		return append(b, "null"...)
	}
	separator := byte('{')
	for name, why := range m {
		b = appendString(append(b, separator), name)
		b = appendString(append(b, ':'), why)
		separator = ','
	}
	if len(m) == 0 {
		b = append(b, '{')
	}
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string cannot fail
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
