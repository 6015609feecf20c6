module a.shakedown.dev/shim

go 1.26.0
