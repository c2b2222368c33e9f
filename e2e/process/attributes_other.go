//go:build unix && !linux

package process

import "syscall"

const resume = syscall.SIGCONT

// attributes keeps a terminal's Ctrl-C from the children: the parent takes it and ends them in order.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
