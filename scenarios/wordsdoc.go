package scenarios

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes a reference of the vocabulary: each action with its
// sentence and a table of its parameters.
func (v Vocabulary) Markdown(w io.Writer) error {
	var b strings.Builder
	for _, a := range v {
		fmt.Fprintf(&b, "### %s\n\n%s.", a.Name, strings.ToUpper(a.Doc[:1])+a.Doc[1:])
		if a.Lasting {
			b.WriteString(" Stays in force until `for` has passed, a `heal` names it, or the run ends.")
		}
		b.WriteString("\n\n")
		if len(a.Params) > 0 {
			b.WriteString("| parameter | type | default | meaning |\n|---|---|---|---|\n")
		}
		for _, p := range a.Params {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.kind(), p.fallback(), strings.ReplaceAll(p.Doc, "|", `\|`))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Param) kind() string {
	if p.Type == TypeChoice {
		return strings.Join(p.Allowed, ", ")
	}
	return string(p.Type)
}

func (p Param) fallback() string {
	switch {
	case p.Required:
		return "required"
	case p.Default == "":
		return "none"
	}
	return "`" + p.Default + "`"
}
