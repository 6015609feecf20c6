package node

import "strings"

// words splits a command at blanks, takes quotes off and puts variables in, as a shell would in simple cases.
func (e *echo) words(command string) []string {
	var words []string
	var word strings.Builder
	open, quote := false, byte(0)
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case quote == 0 && (c == ' ' || c == '\t' || c == '\r'):
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		case quote == 0 && (c == '"' || c == '\''):
			quote, open = c, true
		case c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(command):
			i++
			word.WriteByte(command[i])
			open = true
		case c == '$' && quote != '\'':
			name, used := variable(command[i+1:])
			if used == 0 {
				word.WriteByte(c)
			} else {
				word.WriteString(e.value(name))
			}
			i += used
			open = true
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if open {
		words = append(words, word.String())
	}
	return words
}

// variable reads NAME or {NAME}, and says how many bytes that were.
func variable(s string) (name string, used int) {
	if strings.HasPrefix(s, "{") {
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return "", 0
		}
		return s[1:end], end + 1
	}
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] == '?' || s[n] >= '0' && s[n] <= '9' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= 'a' && s[n] <= 'z') {
		n++
	}
	return s[:n], n
}

func (e *echo) value(name string) string {
	if v, ok := e.vars[name]; ok {
		return v
	}
	for _, kv := range e.req.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
