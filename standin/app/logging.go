package app

import (
	"io"
	"log/slog"
	"os"
	"strings"

	"shakedown.dev/shakedown/standin/config"
)

// newLogger writes to standard error, or to the file that the configuration
// names, as text or JSON.
func newLogger(c config.Log, debug bool, stderr io.Writer) *slog.Logger {
	var out io.Writer = stderr
	if path := c.Output; strings.HasPrefix(path, "/") {
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			out = f
		}
	}
	level := slog.LevelInfo
	switch strings.ToLower(c.Severity) {
	case "debug":
		level = slog.LevelDebug
	case "warn", "warning":
		level = slog.LevelWarn
	case "err", "error":
		level = slog.LevelError
	}
	if debug {
		level = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format.Output == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}
