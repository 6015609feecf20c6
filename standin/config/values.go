package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/gravitational/teleport/api/types"
)

// Flag is a switch with three states: unset, on, off.
type Flag int8

// The states of a Flag.
const (
	Unset Flag = iota
	On
	Off
)

// Or is the flag's value, or standard where it is unset.
func (f Flag) Or(standard bool) bool {
	if f == Unset {
		return standard
	}
	return f == On
}

// StaticToken is one of auth_service.tokens, written `role,role:token` where the
// token may be a file that holds it.
type StaticToken struct {
	Roles types.SystemRoles
	Token string
}

func parseStaticToken(s string) (StaticToken, error) {
	roles, token, ok := strings.Cut(s, ":")
	if !ok || token == "" {
		return StaticToken{}, fmt.Errorf("invalid static token, allowed is role,role:token")
	}
	parsed, err := types.ParseTeleportRoles(roles)
	if err != nil {
		return StaticToken{}, fmt.Errorf("invalid role in static token: %w", err)
	}
	value, err := ReadToken(token)
	return StaticToken{Roles: parsed, Token: value}, err
}

// ReadToken returns value, or what the file holds if value is an absolute path.
func ReadToken(value string) (string, error) {
	if !strings.HasPrefix(value, "/") {
		return value, nil
	}
	b, err := os.ReadFile(value)
	if err != nil {
		return "", fmt.Errorf("read join token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
