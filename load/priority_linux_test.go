package load

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestPrioritise: every thread gets the value, and its own back.
func TestPrioritise(t *testing.T) {
	before, wasGrouped := sessionNice()
	restore, err := prioritise()
	if err != nil {
		t.Skip(err)
	}
	for _, nice := range nices(t) {
		if nice != strconv.Itoa(precedence) {
			t.Errorf("nice values of the threads: %v", nices(t))
			break
		}
	}
	restore()
	for _, nice := range nices(t) {
		if nice != "0" {
			t.Errorf("nice values afterwards: %v", nices(t))
			break
		}
	}
	if after, grouped := sessionNice(); after != before || grouped != wasGrouped {
		t.Errorf("the session's nice value is %d, it was %d", after, before)
	}
}

// nices are the nice values of all threads (proc(5), stat, field 19).
func nices(t *testing.T) (out []string) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		out = append(out, strings.Fields(rest)[16])
	}
	return out
}
