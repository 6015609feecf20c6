package embedded

import "shakedown.dev/shakedown/clusters"

// Finding is what doctor saw about one thing that the embedded cluster needs or would like.
type Finding = clusters.Finding
