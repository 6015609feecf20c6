package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// print writes a result: value as JSON with -o json, otherwise what text writes.
func (a *app) print(value any, text func(w io.Writer)) error {
	if a.output == "json" {
		encoder := json.NewEncoder(a.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	w := tabwriter.NewWriter(a.Out, 0, 8, 3, ' ', 0)
	text(w)
	return w.Flush()
}

// talk says something to a person.
func (a *app) talk(format string, args ...any) {
	fmt.Fprintf(a.Err, format+"\n", args...)
}

// colors says whether a report may be in colour: a person reads it on a terminal, and has not said that
// they want none (no-color.org).
func (a *app) colors() bool {
	return isTerminal(a.Out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
