package app

import (
	"context"
	"encoding/json"
	"fmt"

	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/flags"
)

// fault is `standin fault set|clear|list|record`: the live control of a running
// stand-in, by its data directory.
func fault(ctx context.Context, args []string, s Streams) error {
	dir := config.DefaultDataDir
	var every, limit, bytes, after, length string
	rest, err := flags.Parse(args, []flags.Flag{
		{Name: "data-dir", Text: &dir}, {Name: "every", Text: &every}, {Name: "limit", Text: &limit},
		{Name: "bytes", Text: &bytes}, {Name: "after", Text: &after}, {Name: "for", Text: &length},
	})
	if err != nil {
		return err
	}
	usage := fmt.Errorf("%w: standin fault [--data-dir DIR] set NAME [--every N] [--after D] [--for D] [--limit N] [--bytes N] | clear NAME | list | record", errUsage)
	if len(rest) == 0 {
		return usage
	}
	remote := faults.Dial(dir)
	switch {
	case rest[0] == "set" && len(rest) == 2:
		var options []string
		for key, value := range map[string]string{"every": every, "limit": limit, "bytes": bytes, "after": after, "for": length} {
			if value != "" {
				options = append(options, key+"="+value)
			}
		}
		rule, err := faults.ParseRule(rest[1], options)
		if err != nil {
			return err
		}
		return remote.Set(ctx, rule)
	case rest[0] == "clear" && len(rest) == 2:
		name, err := faults.ParseName(rest[1])
		if err != nil {
			return err
		}
		return remote.Clear(ctx, name)
	case rest[0] == "list" && len(rest) == 1:
		return show(s, remote.Rules, ctx)
	case rest[0] == "record" && len(rest) == 1:
		return show(s, remote.Record, ctx)
	}
	return usage
}

// show prints one JSON object a line.
func show[T any](s Streams, read func(context.Context) ([]T, error), ctx context.Context) error {
	items, err := read(ctx)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(s.Out)
	for _, item := range items {
		if err := enc.Encode(item); err != nil {
			return err
		}
	}
	return nil
}
