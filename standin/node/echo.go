package node

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// echo is a shell without a process, for thousands of sessions: it understands echo, printf-free variables, cat, exit, true, false, sleep and env, separated by ';', '&&' or newlines, and says "command not found" to all else. With a terminal it echoes what is typed unless that was switched off, by the terminal's modes or by `stty -echo`.
type echo struct {
	req  Request
	vars map[string]string

	mu   sync.Mutex
	kill chan struct{}
	once sync.Once
	sig  string

	out    io.Writer
	errs   io.Writer
	tty    bool
	typed  bool // echo what is typed
	cat    bool // lines are printed, not run
	status uint32
	done   bool
}

func newEcho(req Request) *echo {
	e := &echo{req: req, vars: map[string]string{}, kill: make(chan struct{}), tty: req.PTY != nil}
	if e.tty {
		on, given := req.PTY.Modes[modeECHO]
		e.typed = !given || on != 0
	}
	return e
}

func (e *echo) Resize(uint32, uint32) {}

func (e *echo) Signal(name string) {
	e.mu.Lock()
	e.sig = name
	e.mu.Unlock()
	e.Kill()
}

func (e *echo) Kill() { e.once.Do(func() { close(e.kill) }) }

// Run serves the session in the calling goroutine. A signal is noticed at the next line.
func (e *echo) Run(in io.Reader, out, errs io.Writer) Exit {
	e.out, e.errs = out, errs
	if e.tty {
		e.errs = out
	}
	command, _ := strings.CutPrefix(e.req.Command, EchoCommand)
	if command = strings.TrimSpace(command); e.transfer(command, in) {
		e.done = true
	} else if command != "" {
		e.run(command)
		e.done = e.done || !e.cat
	} else if e.req.Command != "" {
		e.cat = true // plain standin-echo
	}
	if !e.done {
		e.prompt()
		e.lines(in)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sig != "" {
		return Exit{Status: 128, Signal: e.sig}
	}
	return Exit{Status: e.status}
}

// lines reads input until EOF, exit or kill.
func (e *echo) lines(in io.Reader) {
	buf := make([]byte, 512)
	var line []byte
	for !e.done {
		n, err := in.Read(buf)
		if n > 0 {
			line = e.take(line, buf[:n])
		}
		if err != nil {
			if len(line) > 0 {
				e.line(string(line))
			}
			return
		}
		select {
		case <-e.kill:
			return
		default:
		}
	}
}

// take handles newly typed bytes; what is not yet a line is returned. All answers to one read are written at once.
func (e *echo) take(line, typed []byte) []byte {
	var reply bytes.Buffer
	direct := e.out
	e.out = &reply
	if e.tty {
		e.errs = &reply
	}
	for _, b := range typed {
		switch {
		case b == '\r' && e.tty, b == '\n':
			if e.typed {
				reply.WriteString("\r\n")
			}
			e.line(string(line))
			line = line[:0]
		case b == 4 && e.tty && len(line) == 0: // ^D
			e.done = true
		case b == 3 && e.tty: // ^C
			reply.WriteString("^C\r\n")
			line, e.cat = line[:0], e.cat && e.req.Command == ""
			if e.req.Command != "" {
				e.status, e.done = 130, true
			}
		default:
			if e.typed {
				reply.WriteByte(b)
			}
			line = append(line, b)
		}
		if e.done {
			break
		}
	}
	e.out = direct
	if e.tty {
		e.errs = direct
	}
	if reply.Len() > 0 {
		direct.Write(reply.Bytes())
	}
	if len(line) == 0 {
		return nil
	}
	return line
}

func (e *echo) line(line string) {
	if e.cat {
		e.print(e.out, line+"\n")
		return
	}
	e.run(line)
	if !e.done {
		e.prompt()
	}
}

func (e *echo) prompt() {
	if e.tty && e.req.Command == "" && e.typed && !e.cat {
		e.print(e.out, "$ ")
	}
}

// print writes text as a terminal would.
func (e *echo) print(w io.Writer, text string) {
	if e.tty {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	io.WriteString(w, text)
}

// run runs the commands of one line.
func (e *echo) run(line string) {
	line = strings.NewReplacer("&&", ";", "\n", ";").Replace(line)
	for _, cmd := range strings.Split(line, ";") {
		if words := e.words(cmd); len(words) > 0 && !e.done {
			e.command(words)
		}
	}
}

func (e *echo) command(words []string) {
	name, args := words[0], words[1:]
	if name == "exec" && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	e.status = 0
	switch name {
	case "echo":
		end := "\n"
		if len(args) > 0 && args[0] == "-n" {
			args, end = args[1:], ""
		}
		e.print(e.out, strings.Join(args, " ")+end)
	case "cat", EchoCommand:
		e.cat = true
	case "exit", "logout":
		e.done = true
		if len(args) > 0 {
			if n, err := strconv.ParseUint(args[0], 10, 8); err == nil {
				e.status = uint32(n)
			}
		}
	case "true", ":", "set", "unset", "export":
		e.assign(args)
	case "false":
		e.status = 1
	case "stty":
		e.stty(args)
	case "sleep":
		e.sleep(args)
	case "env":
		e.print(e.out, strings.Join(e.req.Env, "\n")+"\n")
	default:
		if strings.Contains(name, "=") {
			e.assign(words)
			return
		}
		e.print(e.errs, EchoCommand+": "+name+": command not found\n")
		e.status = 127
	}
}

func (e *echo) stty(args []string) {
	for _, arg := range args {
		switch arg {
		case "-echo", "raw":
			e.typed = false
		case "echo", "sane":
			e.typed = true
		}
	}
}

func (e *echo) sleep(args []string) {
	if len(args) == 0 {
		return
	}
	seconds, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		e.status = 1
		return
	}
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	case <-e.kill:
		e.done = true
	}
}

func (e *echo) assign(args []string) {
	for _, arg := range args {
		if name, value, ok := strings.Cut(arg, "="); ok {
			e.vars[name] = value
		}
	}
}
