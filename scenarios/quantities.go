package scenarios

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a duration of Go's syntax that is not negative.
func ParseDuration(s string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(s, 64); err == nil && s != "0" {
		return 0, fmt.Errorf("%q is not a duration: it needs a unit, such as %ss", s, s)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration, such as 500ms, 30s, 1m30s", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return d, nil
}

// ParseRate reads "5/s", "300/m" or "1000/h" as a number per second.
func ParseRate(s string) (float64, error) {
	number, unit, ok := strings.Cut(s, "/")
	per, known := map[string]float64{"s": 1, "m": 60, "h": 3600}[strings.TrimSpace(unit)]
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || !known || err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%q is not a rate, such as 5/s, 300/m, 1000/h", s)
	}
	if n < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return n / per, nil
}

// ParseShare reads "50%" or "0.5" as a number from 0 to 1.
func ParseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		n /= 100
	}
	if err != nil || math.IsNaN(n) {
		return 0, fmt.Errorf("%q is not a share, such as 50%% or 0.5", s)
	}
	if n < 0 || n > 1 {
		return 0, fmt.Errorf("%q is not between 0%% and 100%%", s)
	}
	return n, nil
}

var sizeSyntax = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([kKMG]i?)?B?$`)

// ParseSize reads "64KiB", "1MB" or "512" as bytes; the i makes it 1024.
func ParseSize(s string) (int64, error) {
	m := sizeSyntax.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size, such as 64KiB, 1MB, 512", s)
	}
	unit := map[string]float64{
		"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "ki": 1 << 10, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
	}[m[2]]
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil || n*unit > 1<<50 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return int64(n * unit), nil
}

// ParseByteRate reads "64KiB/s" as bytes per second.
func ParseByteRate(s string) (int64, error) {
	size, ok := strings.CutSuffix(s, "/s")
	n, err := ParseSize(strings.TrimSpace(size))
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is not a byte rate, such as 64KiB/s", s)
	}
	return n, nil
}

// FormatRate is the shortest text that ParseRate reads as the same rate.
func FormatRate(perSecond float64) string {
	if perMinute := perSecond * 60; perSecond < 1 && perMinute == math.Trunc(perMinute) {
		return strconv.FormatFloat(perMinute, 'g', -1, 64) + "/m"
	}
	return strconv.FormatFloat(perSecond, 'g', -1, 64) + "/s"
}

// FormatShare is a share as a percentage.
func FormatShare(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e4)/1e2, 'g', -1, 64) + "%"
}

// FormatDuration leaves out the units that are zero: 10m, not 10m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if s, ok := strings.CutSuffix(s, "m0s"); ok {
		s += "m"
		if h, ok := strings.CutSuffix(s, "h0m"); ok {
			return h + "h"
		}
		return s
	}
	return s
}
