package faults

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads rules such as "stall:every=3,after=10s,for=5s;slow-auth:for=2s".
func Parse(s string) ([]Rule, error) {
	var rules []Rule
	for _, part := range strings.Split(s, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, options, _ := strings.Cut(part, ":")
		rule, err := ParseRule(name, strings.FieldsFunc(options, func(r rune) bool { return r == ',' }))
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// ParseRule reads one rule with its options, each key=value.
func ParseRule(name string, options []string) (Rule, error) {
	n, err := ParseName(strings.TrimSpace(name))
	if err != nil {
		return Rule{}, err
	}
	rule := Rule{Name: n}
	for _, option := range options {
		key, value, _ := strings.Cut(strings.TrimSpace(option), "=")
		if err := rule.set(key, value); err != nil {
			return Rule{}, fmt.Errorf("fault %s: %w", name, err)
		}
	}
	return rule, nil
}

func (r *Rule) set(key, value string) error {
	var err error
	switch key {
	case "every":
		r.Every, err = positive(value)
	case "limit":
		r.Limit, err = positive(value)
	case "bytes":
		r.Bytes, err = positive(value)
	case "after":
		r.After, err = time.ParseDuration(value)
	case "for":
		r.For, err = time.ParseDuration(value)
	default:
		return fmt.Errorf("unknown option %q, allowed are every, limit, bytes, after, for", key)
	}
	if err != nil {
		return fmt.Errorf("option %s: %w", key, err)
	}
	if r.After < 0 || r.For < 0 {
		return fmt.Errorf("option %s must not be negative", key)
	}
	return nil
}

func positive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a whole number from 1", s)
	}
	return n, nil
}
