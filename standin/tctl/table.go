package tctl

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// table writes rows under headers, as the real tctl's tables look. Without
// headers only the rows are written.
func (t *tool) table(headers []string, rows [][]string) error {
	w := tabwriter.NewWriter(t.Out, 5, 0, 1, ' ', 0)
	line := func(cells []string) { fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }
	if len(headers) > 0 {
		widths := make([]string, len(headers))
		for i := range headers {
			width := len(headers[i])
			for _, row := range rows {
				width = max(width, len(row[i]))
			}
			widths[i] = strings.Repeat("-", width)
		}
		line(headers)
		line(widths)
	}
	for _, row := range rows {
		line(row)
	}
	return w.Flush()
}
