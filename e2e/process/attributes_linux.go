package process

import "syscall"

const resume = syscall.SIGCONT

// attributes lets a child die with its parent, and keeps a terminal's Ctrl-C from the children: the parent
// takes it and ends them in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
