// Command etcd is the etcd server. Its own main package cannot be built from the module proxy, because
// its module has replace directives.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
