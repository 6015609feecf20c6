package gates

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// objectType is a CEL struct type with the names and types of its fields.
type objectType struct {
	typ    *types.Type
	fields map[string]*types.Type
	order  []string
	// methods give the object type their result has; the functions themselves are declared apart.
	methods map[string]string
}

// structType declares an object type with the fields of a Go struct.
func structType[T any](name string, methods map[string]string) objectType {
	o := objectType{typ: cel.ObjectType(name), fields: map[string]*types.Type{}, methods: methods}
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		f := t.Field(i)
		o.add(celName(f), celType(f.Type))
	}
	return o
}

// celName is the field's name in gates.
func celName(f reflect.StructField) string { return strings.ToLower(f.Name[:1]) + f.Name[1:] }

func (o *objectType) add(name string, t *types.Type) {
	o.fields[name] = t
	o.order = append(o.order, name)
}

func celType(t reflect.Type) *types.Type {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return cel.DurationType
	case t.Kind() == reflect.Int:
		return cel.IntType
	case t.Kind() == reflect.Float64:
		return cel.DoubleType
	case t.Kind() == reflect.Bool:
		return cel.BoolType
	}
	panic(fmt.Sprintf("no CEL type for %s", t)) // a programmer's mistake in a struct above
}

// object is a value of an objectType; its fields are computed when asked for.
type object struct {
	typ *types.Type
	get func(field string) (any, error)
	// narrow is what methods such as during work on; nil for objects without methods.
	narrow func(Window, Filter) *object
	window Window
	filter Filter
	// below serves capacity.<component>.secondsBelow.
	below func(share float64) (float64, error)
}

var _ ref.Val = (*object)(nil)

func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s cannot become %s", o.typ.TypeName(), t)
}

func (o *object) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return o.typ
	}
	return types.NewErr("%s cannot become %s", o.typ.TypeName(), t.TypeName())
}

func (o *object) Equal(other ref.Val) ref.Val { return types.Bool(o == other) }
func (o *object) Type() ref.Type              { return o.typ }
func (o *object) Value() any                  { return o }

// provider teaches CEL our object types beside its own.
type provider struct {
	types.Provider
	objects map[string]objectType
}

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if o, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(o.typ), true
	}
	return p.Provider.FindStructType(name)
}

func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if o, ok := p.objects[name]; ok {
		return o.order, true
	}
	return p.Provider.FindStructFieldNames(name)
}

func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	o, ok := p.objects[name]
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	t, ok := o.fields[field]
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type:    t,
		IsSet:   func(any) bool { return true },
		GetFrom: func(target any) (any, error) { return getField(target, field) },
	}, true
}

func getField(target any, field string) (any, error) {
	o, ok := target.(*object)
	if !ok {
		return nil, fmt.Errorf("%T has no field %s", target, field)
	}
	return o.get(field)
}

// fieldOf reads the struct field that gates call name.
func fieldOf(v any, name string) (any, error) {
	rv := reflect.ValueOf(v)
	for i := range rv.NumField() {
		if celName(rv.Type().Field(i)) == name {
			return native(rv.Field(i)), nil
		}
	}
	return nil, fmt.Errorf("%T has no field %s", v, name)
}

func native(v reflect.Value) any {
	if v.Kind() == reflect.Int {
		return int64(v.Int())
	}
	return v.Interface()
}
