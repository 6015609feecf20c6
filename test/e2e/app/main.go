// Command app is what the end-to-end tests run in pods: an HTTP server that
// says who it is, and does what it is told when it starts and stops.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
)

func main() {
	listen := flag.String("listen", ":8080", "address to serve on")
	delay := flag.Duration("delay", 0, "time from start to serving")
	linger := flag.Duration("linger", 0, "time from SIGTERM to exit")
	exit := flag.Int("exit", -1, "exit at once with this status")
	ready := flag.String("ready", "", "file that must exist for /ready to say yes; empty: always")
	config := flag.String("config", "", "YAML file that has to parse")
	mark := flag.String("mark", "", "file that a line is appended to for each event: start, prestop, term")
	flag.Parse()
	if *exit >= 0 {
		fmt.Println("exiting with", *exit)
		os.Exit(*exit)
	}
	if err := parses(*config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	note(*mark, "start")
	time.Sleep(*delay)
	fail := make(chan error, 1)
	go func() { fail <- http.ListenAndServe(*listen, routes(*ready, *mark)) }()
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println("serving on", *listen)
	select {
	case err := <-fail:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case <-term:
		note(*mark, "term")
		fmt.Println("stopping in", *linger)
		time.Sleep(*linger)
	}
}

func parses(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, new(any))
}

func routes(ready, mark string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		name, _ := os.Hostname()
		fmt.Fprint(w, name)
	})
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(ready); ready != "" && err != nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/prestop", func(http.ResponseWriter, *http.Request) { note(mark, "prestop") })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, r.FormValue("path")) })
	mux.HandleFunc("/peer", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })
	return mux
}

func note(file, event string) {
	if file == "" {
		return
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, event)
}
