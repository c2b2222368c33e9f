package controlplane

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// auditPolicy records each request once, when it has been answered, without bodies, and no requests
// for health and discovery.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: Metadata
`

// auditArgs has the API server write its audit log, in one file however long, each line before the next
// request of the same connection is read.
func (c *ControlPlane) auditArgs() []string {
	return []string{
		"--audit-policy-file=" + c.file("audit-policy.yaml"),
		"--audit-log-path=" + c.auditPath(),
		"--audit-log-maxsize=1000000", // MiB
		"--audit-log-mode=blocking",
	}
}

func (c *ControlPlane) auditPath() string { return c.file("logs", "audit.log") }

// Request is one request that kube-apiserver answered, as its audit log has it. A watch is in it when it ends.
type Request struct {
	User string // as whom it was made: the impersonated one, if any
	// Agent is the program: what the User-Agent begins with. One service account may be several programs'.
	Agent           string
	Verb            string // create, get, list, watch, patch, …
	Resource        string // "pods", "pods/binding"
	Namespace, Name string // Name is "" for collections
	Code            int    // HTTP status
	Answered        time.Time
}

// Writes reports whether the request asks to change something.
func (r Request) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// AuditLog reads the audit log of a control plane that was started with Options.Audit.
type AuditLog struct {
	path   string
	offset int64
}

// AuditLog returns a reader that begins at the first request.
func (c *ControlPlane) AuditLog() *AuditLog { return &AuditLog{path: c.auditPath()} }

// Next returns the requests that were answered since the last call, in the order in which they were written
// down. A request may be in the log a moment after its answer is with the client.
func (l *AuditLog) Next() ([]Request, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("audit log (is Options.Audit set?): %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may be half written
	var requests []Request
	for line := range bytes.Lines(text) {
		r, err := parseRequest(line)
		if err != nil {
			return nil, fmt.Errorf("audit log, line %q: %w", line, err)
		}
		requests = append(requests, r)
	}
	l.offset += int64(len(text))
	return requests, nil
}

// parseRequest reads one event of audit.k8s.io/v1.
func parseRequest(line []byte) (Request, error) {
	var event struct {
		Verb      string
		UserAgent string
		User      struct{ Username string }
		Acting    struct{ Username string } `json:"impersonatedUser"`
		ObjectRef struct{ Resource, Subresource, Namespace, Name string }
		Response  struct{ Code int } `json:"responseStatus"`
		Stage     time.Time          `json:"stageTimestamp"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return Request{}, err
	}
	o := event.ObjectRef
	r := Request{
		User: cmp.Or(event.Acting.Username,
			event.User.Username), Verb: event.Verb, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name,
		Code: event.Response.Code, Answered: event.Stage,
	}
	r.Agent, _, _ = strings.Cut(event.UserAgent, "/")
	if o.Subresource != "" {
		r.Resource += "/" + o.Subresource
	}
	return r, nil
}
