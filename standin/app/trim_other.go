//go:build !linux

package app

func trimText() error { return nil }
