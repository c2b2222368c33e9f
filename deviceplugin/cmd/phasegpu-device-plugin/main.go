// Command phasegpu-device-plugin is the kubelet device plugin for NVIDIA cards. It reports a node's cards to kubelet
// and the scheduler, and gives each container the devices that its pod's record names.
package main

import "github.com/phasegpu/phasegpu/gen/process"

func main() { process.Main(name, run) }

// name of the command, also in its user agent.
const name = "phasegpu-device-plugin"
