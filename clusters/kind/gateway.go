package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shakedown.dev/shakedown/clusters"
)

// Labels of a gateway, which are all that is written down about a cluster.
const (
	clusterLabel = "shakedown.dev/cluster" // the cluster's name
	specLabel    = "shakedown.dev/spec"    // clusters.Spec as JSON
	folderLabel  = "shakedown.dev/folder"  // of its socket, on this machine
	networkLabel = "shakedown.dev/network" // "made" if the network was not there before
	seesLabel    = "shakedown.dev/sees"    // "nodes": it shares the PID namespace that they are in
	configLabel  = "shakedown.dev/config"  // digest of the file of kind's configuration, if there was one
)

// network is the one that kind puts its nodes in.
const network = "kind"

// Where the gateway finds things inside.
const (
	programInside = "/shakedown"
	folderInside  = "/run/shakedown"
	socketName    = "gateway"
)

// gateway is the container beside the nodes.
type gateway struct {
	cluster string
	folder  string
	made    bool // the network was made for this cluster
	sees    bool // the processes of the nodes
	config  string
	image   struct{ name, id string } // of the nodes, and its own; empty: not asked for yet
	spec    clusters.Spec
	started time.Time
}

func (g *gateway) container() string { return g.cluster + "-gateway" }
func (g *gateway) socket() string    { return filepath.Join(g.folder, socketName) }

// createGateway makes the container without starting it: the network comes with the nodes. Its image is theirs,
// which is there anyhow and has the program ip.
func (p *Provider) createGateway(ctx context.Context, spec clusters.Spec, image string) (*gateway, error) {
	program := p.Program
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		program = self
	}
	folder, err := os.MkdirTemp("", "shakedown-kind-")
	if err != nil {
		return nil, err
	}
	g := &gateway{cluster: spec.Name, folder: folder, sees: true, spec: spec, started: time.Now()}
	if g.config, err = digest(p.Config); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	g.made, err = networkOurs(ctx)
	args, failed := g.create(program, image)
	if err = errors.Join(err, failed); err == nil {
		_, err = docker(ctx, args...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the gateway: %w", err), os.RemoveAll(folder))
	}
	return g, nil
}

// networkOurs says whether the network is to go with the last of our clusters: it is not there yet, or was made for one.
func networkOurs(ctx context.Context) (bool, error) {
	_, err := docker(ctx, "network", "inspect", network)
	if errNoSuch(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	all, err := listGateways(ctx)
	for _, g := range all {
		if g.made {
			return true, nil
		}
	}
	return false, err
}

func (g *gateway) create(program, image string) ([]string, error) {
	shape := g.spec
	shape.Images = nil // may be many, and name paths
	text, err := json.Marshal(shape)
	if err != nil {
		return nil, err
	}
	args := []string{"create", "--name", g.container(), "--hostname", "gateway", "--network", network,
		"--label", clusterLabel + "=" + g.cluster, "--label", specLabel + "=" + string(text), "--label", folderLabel + "=" + g.folder,
		// As kind's own nodes are: faults are programs in it that stop what runs in them, and enter its namespaces.
		"--privileged", "--pid", "host", "--userns", "host", "--cgroupns", "host", "--label", seesLabel + "=nodes", "--label", configLabel + "=" + g.config, "--env", clusters.FindContainersBy + "=cgroup",
		"--sysctl", "net.ipv4.ip_local_port_range=1024 65535",
		"--volume", program + ":" + programInside + ":ro", "--volume", g.folder + ":" + folderInside,
		"--volume", "/sys/fs/cgroup:/host/cgroup", // what is put into a container's cgroup counts as its own
	}
	if g.made {
		args = append(args, "--label", networkLabel+"=made")
	}
	for k, v := range g.spec.Labels {
		args = append(args, "--label", k+"="+v)
	}
	return append(args, "--entrypoint", programInside, image, GatewayVerb, folderInside+"/"+socketName), nil
}

// start runs the gateway and waits for its socket.
func (g *gateway) start(ctx context.Context) error {
	if _, err := docker(ctx, "start", g.container()); err != nil {
		return fmt.Errorf("start the gateway: %w", err)
	}
	for deadline := time.Now().Add(15 * time.Second); ; {
		if answers(g.socket()) {
			return nil
		}
		if time.Now().After(deadline) {
			said, _ := docker(ctx, "logs", "--tail", "5", g.container())
			return fmt.Errorf("%w: the gateway of cluster %s does not answer: the Docker engine may be in a virtual machine or on another one, "+
				"from where load cannot reach pods (it says: %s)", clusters.ErrUnsupported, g.cluster, oneLine(said))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// answers says whether somebody listens at a socket: it is there a moment before.
func answers(socket string) bool {
	c, err := net.Dial("unix", socket)
	return err == nil && c.Close() == nil
}

// route sets the routes of the gateway: destinations by next hop.
func (g *gateway) route(ctx context.Context, via map[string]string) error {
	var script strings.Builder
	for destination, hop := range via {
		fmt.Fprintf(&script, "ip route replace %s via %s && ", destination, hop)
	}
	_, err := docker(ctx, "exec", g.container(), "sh", "-c", script.String()+"true")
	return wrapf(err, "routes of the gateway")
}

// remove takes the gateway away, its folder, and the network if it was made for this cluster and is not used by others.
func (g *gateway) remove(ctx context.Context) error {
	var errs []error
	if g.made {
		// Before the container, which knows that it has to go.
		if _, err := docker(ctx, "network", "disconnect", "--force", network, g.container()); err != nil && !errNoSuch(err) && !strings.Contains(err.Error(), "is not connected") {
			errs = append(errs, err)
		}
		if _, err := docker(ctx, "network", "rm", network); err != nil && !errNoSuch(err) && !strings.Contains(err.Error(), "active endpoints") {
			errs = append(errs, err)
		}
	}
	errs = append(errs, os.RemoveAll(g.folder))
	if len(errs) == 0 || errors.Join(errs...) == nil {
		if _, err := docker(ctx, "rm", "--force", "--volumes", g.container()); err != nil && !errNoSuch(err) {
			errs = append(errs, err)
		}
	}
	return wrapf(errors.Join(errs...), "remove the gateway of cluster %s", g.cluster)
}

// listGateways are all there are, by the names of their clusters.
func listGateways(ctx context.Context) (map[string]*gateway, error) {
	ids, err := docker(ctx, "ps", "--all", "--quiet", "--filter", "label="+clusterLabel)
	out := map[string]*gateway{}
	if err != nil || ids == "" {
		return out, err
	}
	text, err := docker(ctx, append([]string{"inspect", "--format", `{"labels":{{json .Config.Labels}},"created":{{json .Created}},"name":{{json .Config.Image}},"image":{{json .Image}}}`}, strings.Fields(ids)...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		var seen struct {
			Labels      map[string]string
			Created     time.Time
			Name, Image string
		}
		if err := json.Unmarshal([]byte(line), &seen); err != nil {
			return nil, fmt.Errorf("docker inspect: %w", err)
		}
		g := &gateway{cluster: seen.Labels[clusterLabel], folder: seen.Labels[folderLabel], made: seen.Labels[networkLabel] != "", sees: seen.Labels[seesLabel] != "", config: seen.Labels[configLabel], started: seen.Created}
		g.image.name, g.image.id = seen.Name, seen.Image
		if err := json.Unmarshal([]byte(seen.Labels[specLabel]), &g.spec); err != nil {
			return nil, &clusters.NameError{Name: g.cluster, Err: fmt.Errorf("its gateway's label %s: %w", specLabel, err)}
		}
		out[g.cluster] = g
	}
	return out, nil
}

func findGateway(ctx context.Context, name string) (*gateway, error) {
	all, err := listGateways(ctx)
	if err != nil {
		return nil, err
	}
	if g := all[name]; g != nil {
		return g, nil
	}
	return nil, notFound(name)
}
