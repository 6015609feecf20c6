//go:build !linux

package cli_test

// isolatedVar is never set: there are no clusters here.
const isolatedVar = "CLI_TEST_ISOLATED"

func fakes() map[string]func() { return map[string]func(){} }

func isolate() {}
