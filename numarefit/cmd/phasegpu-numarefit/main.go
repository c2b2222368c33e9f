// Command phasegpu-numarefit moves a container's devices to those that kubelet's Topology Manager allows, when a
// node's device plugin asks for it and the books have room.
package main

import "github.com/phasegpu/phasegpu/gen/process"

func main() { process.Main(name, run) }

// name of the command, also in its user agent.
const name = "phasegpu-numarefit"
