package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

// held is a kubelite that this process started.
type held struct {
	name     string
	init     *exec.Cmd
	images   *exec.Cmd
	lifeline *os.File // write end: closed, kubelite dies
	progress *os.File // read end
	lines    *json.Decoder
	log      *os.File
	done     chan struct{} // closed when both processes are gone
}

// ends are the descriptors of `kubelite init`, and the launcher's other ends of them.
type ends struct {
	control, api, progressW, lifelineR, imagesInit, log *os.File // theirs
	progressR, lifelineW, imagesHelper                  *os.File // ours
}

// start runs `kubelite images`, then `kubelite init` and gives it its id maps. The files given to it are
// closed here except control, which is the caller's.
func start(kubelite string, boot BootSpec, control *os.File) (*held, error) {
	api, port, err := listenAPI(boot.APIPort)
	if err != nil {
		return nil, err
	}
	boot.APIPort = port
	e, err := openEnds(boot.ImageCache)
	if err != nil {
		return nil, errors.Join(err, api.Close())
	}
	e.control, e.api = control, api
	h := &held{
		name: boot.Name, lifeline: e.lifelineW, progress: e.progressR, lines: json.NewDecoder(e.progressR),
		log: e.log, done: make(chan struct{}),
	}
	err = h.run(kubelite, boot, e)
	closeAll(e.api, e.progressW, e.lifelineR, e.imagesInit, e.imagesHelper)
	if err != nil {
		closeAll(e.progressR, e.lifelineW, e.log)
		return nil, err
	}
	return h, nil
}

func (h *held) run(kubelite string, boot BootSpec, e *ends) error {
	var err error
	spec := ImagesSpec{Protocol: ProtocolVersion, Name: boot.Name, ImageCache: boot.ImageCache}
	if h.images, err = command(kubelite, "images", boot.Name, spec, e.log, e.imagesHelper); err != nil {
		return err
	}
	if h.init, err = command(kubelite, "init", boot.Name, boot, e.log,
		e.control, e.api, e.progressW, e.lifelineR, e.imagesInit, e.log); err != nil {
		return err
	}
	userNS := isolate(h.init.SysProcAttr)
	h.init.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := h.images.Start(); err != nil {
		return fmt.Errorf("start kubelite images: %w", err)
	}
	if err := startTied(h.init, h.done); err != nil {
		// The helper sees its socket close with the caller's copies.
		go h.images.Wait()
		return explainClone(err, userNS)
	}
	go h.reap()
	if userNS {
		err = mapIDs(h.init.Process.Pid)
	}
	if err == nil {
		_, err = h.lifeline.Write([]byte{LifelineGo})
	}
	if err != nil {
		_ = h.init.Process.Kill()
	}
	return err
}

// command is `kubelite VERB NAME` with a document on stdin, in a session of its own so that Ctrl-C
// reaches the launcher alone.
func command(kubelite, verb, name string, document any, log *os.File, files ...*os.File) (*exec.Cmd, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(kubelite, verb, name)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "PATH="+childPath())
	cmd.Stdin = bytes.NewReader(text)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// startTied starts cmd from a thread that lives until done: a parent death signal fires when the thread
// that forked ends, not the process.
func startTied(cmd *exec.Cmd, done <-chan struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-done
		}
	}()
	return <-started
}

func (h *held) reap() {
	_ = h.init.Wait()
	timer := time.AfterFunc(2*time.Second, func() { _ = h.images.Process.Kill() })
	_ = h.images.Wait()
	timer.Stop()
	close(h.done)
}

// await reports progress until the step is done.
func (h *held) await(ctx context.Context, step string, report func(clusters.Step)) error {
	stop := context.AfterFunc(ctx, func() { _ = h.progress.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		var line Progress
		if err := h.lines.Decode(&line); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return h.died(err)
		}
		if line.Step == step && line.State == StepDone {
			return nil
		}
		report(clusters.Step{Name: line.Step, State: clusters.StepState(line.State), Detail: line.Detail})
		if line.State == StepFailed {
			return h.withLog(h.failure(line))
		}
	}
}

func (h *held) failure(line Progress) error {
	if line.Step == StepCluster {
		return fmt.Errorf("cluster %s: %s", h.name, line.Detail)
	}
	return fmt.Errorf("cluster %s: %s: %s", h.name, line.Step, line.Detail)
}

// died explains a progress pipe that ended before the step did.
func (h *held) died(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return h.withLog(fmt.Errorf("cluster %s: progress of kubelite: %w", h.name, err))
	}
	h.kill()
	return h.withLog(fmt.Errorf("cluster %s: kubelite ended (%s) before the cluster was ready", h.name, h.init.ProcessState))
}

// detach lets kubelite live on alone.
func (h *held) detach() error {
	if _, err := h.lifeline.Write([]byte{LifelineDetach}); err != nil {
		return fmt.Errorf("detach from kubelite: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second,
		fmt.Errorf("cluster %s: kubelite did not confirm that it lives on alone", h.name))
	defer cancel()
	if err := h.await(ctx, StepDetached, func(clusters.Step) {}); err != nil {
		return err
	}
	closeAll(h.lifeline, h.progress, h.log)
	return nil
}

// kill ends the cluster without asking it and waits until it is gone.
func (h *held) kill() {
	_ = h.init.Process.Kill()
	_ = h.lifeline.Close()
	<-h.done
}

// withLog adds the end of kubelite's log to err: it vanishes with the cluster.
func (h *held) withLog(err error) error {
	tail := logTail(h.log, 15)
	if tail == "" {
		return err
	}
	return exit.Hint(err, "the end of its log:\n"+tail)
}

// logTail is the last lines of a log, at most 4 KiB.
func logTail(log io.ReaderAt, lines int) string {
	file, ok := log.(*os.File)
	if !ok {
		return ""
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	buf := make([]byte, min(size, 4096))
	n, _ := file.ReadAt(buf, size-int64(len(buf)))
	all := bytes.Split(bytes.TrimSpace(buf[:n]), []byte{'\n'})
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte{'\n'}))
}

func openEnds(cache string) (*ends, error) {
	e := new(ends)
	var err error
	if e.log, err = openLog(cache); err != nil {
		return nil, err
	}
	var errProgress, errLifeline, errImages error
	e.progressR, e.progressW, errProgress = os.Pipe()
	e.lifelineR, e.lifelineW, errLifeline = os.Pipe()
	pair, errImages := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if errImages == nil {
		e.imagesInit, e.imagesHelper = os.NewFile(uintptr(pair[0]), "images"), os.NewFile(uintptr(pair[1]), "images")
	}
	if err := errors.Join(errProgress, errLifeline, errImages); err != nil {
		closeAll(e.log, e.progressR, e.progressW, e.lifelineR, e.lifelineW, e.imagesInit, e.imagesHelper)
		return nil, err
	}
	return e, nil
}

// openLog opens a file without a name, on disk because a log has no bound, gone with its last user.
func openLog(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), "kubelite.log"), nil
	}
	// Not every file system has O_TMPFILE.
	file, err := os.CreateTemp(dir, "kubelite-*.log")
	if err != nil {
		return nil, explainDisk(err, dir)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	_, err = unix.FcntlInt(file.Fd(), unix.F_SETFL, unix.O_APPEND)
	return file, err
}

func listenControl(uid int, name string) (*os.File, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: ControlName(uid, name)})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	return listener.File()
}

// listenAPI opens the port in this network namespace; a socket stays in the one it was opened in.
func listenAPI(port int) (*os.File, int, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, 0, exit.Hint(fmt.Errorf("port %d on 127.0.0.1 is taken", port), "choose another --api-port, or 0 for any free one")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("API port: %w", err)
	}
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	return file, listener.Addr().(*net.TCPAddr).Port, err
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
