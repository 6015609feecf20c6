// Command standin is a stand-in for Teleport: called as `teleport` or `tctl` it
// is that program, as far as a test harness looks.
package main

import (
	"os"

	"shakedown.dev/shakedown/standin/app"
)

func main() { os.Exit(app.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
