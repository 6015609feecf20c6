package node

import (
	"os"

	"golang.org/x/sys/unix"
)

// Terminal mode numbers of RFC 4254, 8, that the stand-in obeys.
const (
	modeISIG   = 50
	modeICANON = 51
	modeECHO   = 53
	modeECHOE  = 54
	modeECHOK  = 55
	modeECHONL = 56
	modeIEXTEN = 59
	modeICRNL  = 36
	modeOPOST  = 70
	modeONLCR  = 72
)

// setModes applies the requested modes to a terminal. What cannot be set stays as it is.
func setModes(tty *os.File, modes map[uint8]uint32) {
	t, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		return
	}
	local := map[uint8]uint32{modeISIG: unix.ISIG, modeICANON: unix.ICANON, modeECHO: unix.ECHO, modeECHOE: unix.ECHOE, modeECHOK: unix.ECHOK, modeECHONL: unix.ECHONL, modeIEXTEN: unix.IEXTEN}
	for mode, bit := range local {
		setBit(&t.Lflag, bit, modes, mode)
	}
	setBit(&t.Iflag, unix.ICRNL, modes, modeICRNL)
	setBit(&t.Oflag, unix.OPOST, modes, modeOPOST)
	setBit(&t.Oflag, unix.ONLCR, modes, modeONLCR)
	unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, t)
}

func setBit(flags *uint32, bit uint32, modes map[uint8]uint32, mode uint8) {
	value, given := modes[mode]
	switch {
	case !given:
	case value != 0:
		*flags |= bit
	default:
		*flags &^= bit
	}
}
