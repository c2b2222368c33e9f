// Package deviceplugin is phasegpu's kubelet device plugin for NVIDIA cards; the command is
// cmd/phasegpu-device-plugin. README.md says how it is run and what containers are given.
//
// Kubelet's Allocate call does not say for which pod it is. The plugin answers it from the record of the one
// pod on its node that kubelet has not reported on yet, and marks its answer with whom it is meant for.
// Kubelet keeps the answer in its checkpoint beside the name of the container that got it, so the checkpoint
// tells what has been served, also to a plugin that was restarted, and who got what was not meant for him:
// that container is not started. See docs/design.md, sections 6 and 7, and package internal/allocate.
package deviceplugin
