package e2e

import (
	"crypto/tls"
	"errors"
	"os"
)

// insecure is for asking servers that are to refuse us anyway.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func onlyRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("the cluster of an ordinary user has no root file system of its own")
	}
	return nil
}
