//go:build !linux

package load

import "errors"

func prioritise() (restore func(), err error) {
	return nil, errors.New("not known how on this system")
}
