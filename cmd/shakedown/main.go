// Command shakedown takes a Teleport cluster on Kubernetes through its sea trial.
package main

import "shakedown.dev/shakedown/internal/cli"

func main() { cli.Main() }
