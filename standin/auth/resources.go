package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"go.yaml.in/yaml/v3"

	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/state"
)

func roleKey(name string) string  { return "roles/" + name }
func userKey(name string) string  { return "users/" + name }
func tokenKey(name string) string { return "tokens/" + name }

func (a *Auth) role(ctx context.Context, name string) (types.Role, error) {
	var role types.RoleV5
	if err := a.getJSON(ctx, roleKey(name), &role); err != nil {
		return nil, describe(err, "role %s is not found", name)
	}
	return &role, role.CheckAndSetDefaults()
}

func (a *Auth) roles(ctx context.Context) ([]*types.RoleV5, error) {
	return listJSON[types.RoleV5](ctx, a.store, "roles/")
}

func (a *Auth) getUser(ctx context.Context, name string) (*types.UserV2, error) {
	var user types.UserV2
	if err := a.getJSON(ctx, userKey(name), &user); err != nil {
		return nil, describe(err, "user %q is not found", name)
	}
	return &user, user.CheckAndSetDefaults()
}

func (a *Auth) users(ctx context.Context) ([]*types.UserV2, error) {
	return listJSON[types.UserV2](ctx, a.store, "users/")
}

func describe(err error, format string, args ...any) error {
	if errors.Is(err, state.ErrNotFound) {
		return fmt.Errorf(format+"%w", append(args, silent{state.ErrNotFound})...)
	}
	return err
}

// silent keeps an error for errors.Is and adds nothing to the text.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

func listJSON[T any](ctx context.Context, store state.Store, prefix string) ([]*T, error) {
	items, err := store.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	out := make([]*T, 0, len(items))
	for _, item := range items {
		v := new(T)
		if err := json.Unmarshal(item.Value, v); err != nil {
			return nil, fmt.Errorf("decode %s: %w", item.Key, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// decodeRole reads a role of any version up to v8; what the stand-in knows of it
// is what v5 has.
func decodeRole(raw []byte) (*types.RoleV5, error) {
	var role types.RoleV5
	if err := json.Unmarshal(raw, &role); err != nil {
		return nil, fmt.Errorf("role: %w%w", err, silent{errBadRequest})
	}
	if slices.Contains([]string{"v6", "v7", "v8"}, role.Version) {
		role.Version = types.V5
	}
	if err := role.CheckAndSetDefaults(); err != nil {
		return nil, fmt.Errorf("role %s: %w%w", role.GetName(), err, silent{errBadRequest})
	}
	return &role, nil
}

// create stores one resource, given as JSON. Without force an existing one is
// an error.
func (a *Auth) create(ctx context.Context, by string, raw []byte, force bool) error {
	var head struct {
		Kind     string         `json:"kind"`
		Metadata types.Metadata `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return fmt.Errorf("resource: %w%w", err, silent{errBadRequest})
	}
	switch strings.ToLower(head.Kind) {
	case "role", "roles":
		return a.createRole(ctx, by, raw, force)
	case "user", "users":
		return a.createUser(ctx, by, raw, force)
	case "token", "tokens":
		return a.createToken(ctx, raw, force)
	case "cluster_networking_config", "session_recording_config", "cluster_auth_preference":
		return fmt.Errorf("resource %s: the stand-in takes it from the configuration file alone%w", head.Kind, silent{errBadRequest})
	case "":
		return fmt.Errorf("missing resource kind%w", silent{errBadRequest})
	}
	return fmt.Errorf("creating resources of type %q is not supported, supported are role, user, token%w", head.Kind, silent{errBadRequest})
}

func (a *Auth) store1(ctx context.Context, key string, value any, expires time.Time, force bool) error {
	if force {
		return a.putJSON(ctx, key, value, expires)
	}
	return a.createJSON(ctx, key, value, expires)
}

func (a *Auth) createRole(ctx context.Context, by string, raw []byte, force bool) error {
	role, err := decodeRole(raw)
	if err != nil {
		return err
	}
	if err := a.store1(ctx, roleKey(role.GetName()), role, role.Expiry(), force); err != nil {
		return exists(err, "role %q already exists", role.GetName())
	}
	return a.Emit(ctx, &events.RoleCreate{
		Metadata:         events.Metadata{Type: audit.RoleCreate, Code: audit.RoleCreateCode},
		UserMetadata:     events.UserMetadata{User: by},
		ResourceMetadata: events.ResourceMetadata{Name: role.GetName()},
	})
}

func (a *Auth) createUser(ctx context.Context, by string, raw []byte, force bool) error {
	var user types.UserV2
	if err := json.Unmarshal(raw, &user); err != nil {
		return fmt.Errorf("user: %w%w", err, silent{errBadRequest})
	}
	if err := user.CheckAndSetDefaults(); err != nil {
		return fmt.Errorf("user: %w%w", err, silent{errBadRequest})
	}
	for _, role := range user.GetRoles() {
		if _, err := a.role(ctx, role); err != nil {
			return err
		}
	}
	if err := a.store1(ctx, userKey(user.GetName()), &user, user.Expiry(), force); err != nil {
		return exists(err, "user %q already exists", user.GetName())
	}
	return a.Emit(ctx, &events.UserCreate{
		Metadata:         events.Metadata{Type: audit.UserCreate, Code: audit.UserCreateCode},
		UserMetadata:     events.UserMetadata{User: by},
		ResourceMetadata: events.ResourceMetadata{Name: user.GetName()},
		Roles:            user.GetRoles(), Connector: "local",
	})
}

func exists(err error, format string, args ...any) error {
	if errors.Is(err, state.ErrExists) {
		return fmt.Errorf(format+"%w", append(args, silent{state.ErrExists})...)
	}
	return err
}

// remove deletes a resource by kind and name.
func (a *Auth) remove(ctx context.Context, by, kind, name string) error {
	switch strings.ToLower(kind) {
	case "role", "roles":
		if err := a.store.Delete(ctx, roleKey(name)); err != nil {
			return describe(err, "role %s is not found", name)
		}
		return a.Emit(ctx, &events.RoleDelete{
			Metadata:     events.Metadata{Type: audit.RoleDelete, Code: audit.RoleDeleteCode},
			UserMetadata: events.UserMetadata{User: by}, ResourceMetadata: events.ResourceMetadata{Name: name},
		})
	case "user", "users":
		if err := a.store.Delete(ctx, userKey(name)); err != nil {
			return describe(err, "user %q is not found", name)
		}
		return a.Emit(ctx, &events.UserDelete{
			Metadata:     events.Metadata{Type: audit.UserDelete, Code: audit.UserDeleteCode},
			UserMetadata: events.UserMetadata{User: by}, ResourceMetadata: events.ResourceMetadata{Name: name},
		})
	case "token", "tokens":
		return describe(a.store.Delete(ctx, tokenKey(name)), "provisioning token(%s) not found", name)
	case "node", "nodes":
		return describe(a.store.Delete(ctx, serverKey(types.KindNode, name)), "node %q is not found", name)
	}
	return fmt.Errorf("deleting resources of type %q is not supported%w", kind, silent{errBadRequest})
}

// applyFile creates, or replaces, every resource of a YAML file with several
// documents.
func (a *Auth) applyFile(ctx context.Context, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("apply on startup: %w", err)
	}
	docs, err := SplitYAML(b)
	if err != nil {
		return fmt.Errorf("apply on startup: %s: %w", path, err)
	}
	for _, doc := range docs {
		if err := a.create(ctx, "system", doc, true); err != nil {
			return fmt.Errorf("apply on startup: %s: %w", path, err)
		}
	}
	return nil
}

// SplitYAML returns each document of a YAML stream as JSON.
func SplitYAML(b []byte) ([][]byte, error) {
	dec := yaml.NewDecoder(strings.NewReader(string(b)))
	var out [][]byte
	for {
		var doc any
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if doc == nil {
			continue
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
}
