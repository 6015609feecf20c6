package reports

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFolder writes verdict.json, report.html, junit.xml and summary.md into a run folder. It goes on
// past errors and gives all of them: one report that cannot be written must not cost the others.
func WriteFolder(dir string, r Report) error {
	errs := []error{r.Verdict.Write(dir)}
	for _, f := range Formats() {
		switch f.Name {
		case "html", "junit", "markdown":
			errs = append(errs, writeFile(filepath.Join(dir, f.File), f.Report, r))
		}
	}
	return errors.Join(errs...)
}

// writeFile writes one report, whole or not at all.
func writeFile(path string, report Reporter, r Report) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	err = errors.Join(report(tmp, r), tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
