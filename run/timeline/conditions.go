package timeline

import (
	"errors"
	"fmt"

	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/scenarios"
)

// Compiled are the conditions of a timeline, over one world.
type Compiled struct {
	world      gates.World
	conditions map[string]*gates.Condition
}

// Compile type-checks all conditions of the steps; the error names each step whose condition is wrong.
func Compile(steps []scenarios.Step, names gates.Names, world gates.World) (*Compiled, error) {
	c := &Compiled{world: world, conditions: map[string]*gates.Condition{}}
	var errs []error
	for _, s := range steps {
		for _, expr := range conditionsOf(s) {
			if _, done := c.conditions[expr]; done {
				continue
			}
			condition, err := gates.CompileCondition(expr, names)
			if err != nil {
				errs = append(errs, fmt.Errorf("step %s: condition %s: %w", s.ID, expr, err))
				continue
			}
			c.conditions[expr] = condition
		}
	}
	return c, errors.Join(errs...)
}

func conditionsOf(s scenarios.Step) (exprs []string) {
	if s.When != "" {
		exprs = append(exprs, s.When)
	}
	if s.Wait != nil && s.Wait.For != "" {
		exprs = append(exprs, s.Wait.For)
	}
	return exprs
}

// Holds asks the world now.
func (c *Compiled) Holds(expr string) (bool, string, error) {
	condition, ok := c.conditions[expr]
	if !ok {
		return false, "", fmt.Errorf("condition %s was not compiled", expr)
	}
	holds, value, err := condition.Eval(c.world)
	text := ""
	if value != nil {
		text = fmt.Sprint(value)
	}
	return holds, text, err
}
