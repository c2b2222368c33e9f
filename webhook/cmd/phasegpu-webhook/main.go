// Command phasegpu-webhook admits pods that request devices: it sets defaults, refuses pods that could not be accounted
// for or exceed their namespace's quota, and removes forged records. Its subcommand `certificates` makes and renews
// serving certificates, the webhook's and others.
package main

import "github.com/phasegpu/phasegpu/gen/process"

func main() { process.Main(name, run) }

// name of the command, also in its user agent.
const name = "phasegpu-webhook"
