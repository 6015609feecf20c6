package chaos

import (
	"fmt"
	"io"

	"shakedown.dev/shakedown/scenarios"
)

// Document writes docs/faults.md: each fault of the vocabulary with its parameters, its proofs, where it is
// available, and an example.
func Document(w io.Writer) error {
	words := scenarios.Words()
	if _, err := io.WriteString(w, docHead); err != nil {
		return err
	}
	for _, k := range Kinds() {
		if err := words.Only(k.Name).Markdown(w); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "- **It bites** when %s.\n- **It healed** when %s%s.\n- **Available** on %s.\n\n```yaml\n- {name: example, do: {%s}}\n```\n\n",
			k.Proof, k.Healed, k.healTime(), k.Where, k.Example)
		if err != nil {
			return err
		}
	}
	return nil
}

// healTime says how long healing takes, to stand after what it waits for.
func (k Kind) healTime() string {
	if k.Slow == "" {
		return fmt.Sprintf("; within %.0f s of its end, if no pod was lost by it", HealTime.Seconds())
	}
	return ". It takes as long as " + k.Slow
}

const docHead = `# Faults

<!-- Made from the code by chaos.Document; go test ./chaos -update writes it. -->

A fault counts only if it proves that it bites, and later that it healed, each by an observation that is not the
success of its own call. Without the first proof within ` + "`timeout`" + `, or with a selection that is empty, the run is
inconclusive. Whatever a fault changes is written down before, in ` + "`undo.jsonl`" + ` of the run's folder and in a ConfigMap
of the cluster, so that ` + "`shakedown heal`" + ` can undo it after the run has died.

`
