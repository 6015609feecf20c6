// Package cli is the command line of shakedown: one file per verb. It alone touches os.Args, os.Exit
// and the terminal; everything below Run works on what it is handed, so that a whole command line runs
// inside a test.
package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"shakedown.dev/shakedown/internal/exit"
)

// Streams are the three files of a program. Results go to Out, talk goes to Err.
type Streams struct {
	In, Out, Err *os.File
}

// errInterrupted is why the context of a command ends at the first signal.
var errInterrupted = errors.New("interrupted")

// Main runs the program and ends it.
func Main() {
	streams := Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(int(withSignals(func(ctx context.Context) exit.Code {
		return Run(ctx, os.Args[1:], streams)
	})))
}

// withSignals cancels the context at the first signal. From then on signals do what they do to any
// program: the second ends it at once, and the kernel takes away what hung on it. A run heeds more of them.
func withSignals(run func(context.Context) exit.Code) exit.Code {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		signal.Stop(signals)
		cancel(errInterrupted)
	}()
	return run(ctx)
}

// app is what the verbs share: the streams, and the flags that every verb has.
type app struct {
	Streams
	output   string // text or json
	progress string // auto, tty, plain or json
	verbose  bool
	log      *slog.Logger
	argv     []string // the whole command line
	ran      bool     // a verb has begun: errors are no longer about usage
}

// Run does one command line and says how it ended. Errors are printed here and nowhere else.
func Run(ctx context.Context, args []string, streams Streams) exit.Code {
	a := &app{Streams: streams, argv: append([]string{"shakedown"}, args...)}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exit.Pass
	}
	if status, ok := errors.AsType[statusError](err); ok {
		return exit.Code(status)
	}
	if errors.Is(err, errInterrupted) {
		err = exit.With(exit.Interrupted, err)
	}
	if !a.ran {
		err = exit.Hint(exit.With(exit.Usage, err), "see shakedown --help")
	}
	a.complain(err)
	return exit.CodeOf(err)
}

// complain prints an error and what to do about it.
func (a *app) complain(err error) {
	fmt.Fprintf(a.Err, "shakedown: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	if hint := exit.HintOf(err); hint != "" {
		fmt.Fprintf(a.Err, "  %s\n", strings.ReplaceAll(hint, "\n", "\n    "))
	}
}

// statusError ends the program with a status and says nothing: everything has been said.
type statusError exit.Code

func (s statusError) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "shakedown",
		Short: "Take a Teleport cluster on Kubernetes through its sea trial",
		Long: "Shakedown brings up a Kubernetes cluster, installs a Teleport chart, holds sessions through it, rolls out\n" +
			"a new version, breaks things while that is under way, and says exactly what was lost.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.prepare() },
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	flags := root.PersistentFlags()
	flags.StringVarP(&a.output, "output", "o", "text", "form of the result on standard output: text or json")
	flags.StringVar(&a.progress, "progress", "auto", "form of the progress on standard error: auto, tty, plain or json")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "say more on standard error")
	root.AddCommand(a.run(), a.plan(), a.check(), a.report(), a.compare(), a.shrink(), a.heal(), a.scenarios(), a.cluster(), a.doctor(), a.version(), a.gateway(), a.janitor())
	return root
}

// prepare checks the shared flags, after which errors are no longer about usage.
func (a *app) prepare() error {
	if err := oneOf("output", a.output, "text", "json"); err != nil {
		return err
	}
	if err := oneOf("progress", a.progress, "auto", "tty", "plain", "json"); err != nil {
		return err
	}
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	a.log = slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level}))
	a.ran = true
	return nil
}

func oneOf(flag, value string, allowed ...string) error {
	for _, v := range allowed {
		if v == value {
			return nil
		}
	}
	return fmt.Errorf("--%s %s: want %s", flag, value, strings.Join(allowed, ", "))
}

// usage marks an error as one of the command line.
func usage(format string, args ...any) error {
	return exit.With(exit.Usage, fmt.Errorf(format, args...))
}

func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }
