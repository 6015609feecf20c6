package chaos

import (
	"fmt"
	"io"
	"strings"

	"shakedown.dev/shakedown/scenarios"
)

// Document writes docs/faults.md: each fault of the vocabulary with its parameters, its proofs, where it is
// available, and an example; and those that this version cannot carry out, with the reason.
func Document(w io.Writer) error {
	words := scenarios.Words()
	if _, err := io.WriteString(w, docHead); err != nil {
		return err
	}
	for _, k := range Kinds() {
		if err := words.Only(k.Name).Markdown(w); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "- **It bites** when %s.\n- **It healed** when %s.\n- **Available** on %s.\n\n```yaml\n- {name: example, do: {%s}}\n```\n\n",
			k.Proof, k.Healed, k.Where, k.Example)
		if err != nil {
			return err
		}
	}
	var b strings.Builder
	b.WriteString("## Not carried out by this version\n\nA scenario that has one of these is refused before anything starts.\n\n")
	for _, m := range Missing() {
		word, _ := words.Find(m.Name)
		fmt.Fprintf(&b, "- `%s`: %s. %s.\n", m.Name, word.Doc, strings.ToUpper(m.Why[:1])+m.Why[1:])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const docHead = `# Faults

<!-- Made from the code by chaos.Document; go test ./chaos -update writes it. -->

A fault counts only if it proves that it bites, and later that it healed, each by an observation that is not the
success of its own call. Without the first proof within ` + "`timeout`" + `, or with a selection that is empty, the run is
inconclusive. Whatever a fault changes is written down before, in ` + "`undo.jsonl`" + ` of the run's folder and in a ConfigMap
of the cluster, so that ` + "`shakedown heal`" + ` can undo it after the run has died.

`

// Lacking is a word of the vocabulary that this version cannot carry out.
type Lacking struct{ Name, Why string }

// Missing are all of them.
func Missing() []Lacking {
	return []Lacking{
		{"dnsFailure", "a cluster's own DNS would have to be replaced by one that answers wrongly, which is not built yet"},
		{"volumeFull", "on the embedded cluster a volume is a directory of the machine's disk: filling it fills the machine"},
		{"volumeReadOnly", "the mount would have to be made inside the container's mount namespace, which is not built yet"},
		{"resourceStress", "it takes a cluster whose memory and CPU limits hold, and is not built yet"},
		{"clockSkew", "a running process cannot be moved into another time namespace, and an image would have to bring libfaketime"},
	}
}
