// Package contract says everything that Shakedown expects of a Teleport from outside, as one suite of tests. It runs
// against the stand-in; with SHAKEDOWN_TELEPORT set to a folder that has the real teleport and tctl, against those.
// Where the two differ, the stand-in is wrong.
package contract
