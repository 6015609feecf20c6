package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/flags"
)

// Times of `teleport wait no-resolve` (tool/teleport/common/wait.go:37).
const (
	waitPeriod  = 10 * time.Second
	waitTimeout = 10 * time.Minute
)

// wait is `teleport wait duration D` and `teleport wait no-resolve HOST`.
func wait(ctx context.Context, args []string, s Streams) error {
	period, timeout := waitPeriod, waitTimeout
	rest, err := flags.Parse(args, []flags.Flag{{Name: "period", Duration: &period}, {Name: "timeout", Duration: &timeout}})
	if err != nil {
		return err
	}
	if len(rest) != 2 {
		return fmt.Errorf("%w: teleport wait duration TIME, or teleport wait no-resolve HOST", errUsage)
	}
	switch rest[0] {
	case "duration":
		d, err := time.ParseDuration(rest[1])
		if err != nil {
			return fmt.Errorf("wait duration: %w", err)
		}
		if d <= 0 {
			return errors.New("no duration provided")
		}
		return sleep(ctx, d)
	case "no-resolve":
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return waitNoResolve(ctx, rest[1], period, net.DefaultResolver.LookupHost, s)
	}
	return fmt.Errorf("unknown wait %q, allowed are duration, no-resolve", rest[0])
}

// waitNoResolve returns when host has no address any more. Errors other than
// "not found" are tried again.
func waitNoResolve(ctx context.Context, host string, period time.Duration, lookup func(context.Context, string) ([]string, error), s Streams) error {
	for {
		addrs, err := lookup(ctx, host)
		var dns *net.DNSError
		switch {
		case errors.As(err, &dns) && dns.IsNotFound:
			fmt.Fprintf(s.Err, "no address found for %s, done waiting\n", host)
			return nil
		case err != nil:
			fmt.Fprintf(s.Err, "error looking up %s, retrying: %v\n", host, err)
		default:
			fmt.Fprintf(s.Err, "%s still resolves to %v, waiting\n", host, addrs)
		}
		// A seventh of jitter, as in the real program.
		if err := sleep(ctx, period*6/7+rand.N(period/7+1)); err != nil {
			return fmt.Errorf("timeout waiting for %s to stop resolving: %w", host, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// configure is `teleport configure --test FILE`.
func configure(args []string, s Streams) error {
	file := ""
	if _, err := flags.Parse(args, []flags.Flag{{Name: "test", Text: &file, Required: true}}); err != nil {
		return err
	}
	env, err := readEnvironment(getenv)
	if err != nil {
		return err
	}
	cfg, err := config.Load(file, env.Behaviour.StrictKeys)
	if err != nil {
		fmt.Fprintf(s.Out, "FAIL %s\n", file)
		return err
	}
	for _, warning := range cfg.Warnings {
		fmt.Fprintln(s.Err, "WARNING:", warning)
	}
	fmt.Fprintf(s.Out, "OK %s\n", file)
	return nil
}
