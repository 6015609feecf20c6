package chaos

// Kinds is the whole kit.
func Kinds() []Kind {
	return []Kind{podDelete, podEvict, nodeDrain, nodeCordon}
}
