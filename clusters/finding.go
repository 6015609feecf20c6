package clusters

// Finding is what doctor saw about one thing that a provider needs or would like.
type Finding struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"` // without it there is no cluster; otherwise something is missing in it
	Detail   string `json:"detail"`
	Do       string `json:"do,omitempty"` // what to do if not OK
}
