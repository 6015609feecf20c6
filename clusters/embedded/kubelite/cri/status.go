package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Name and version that the node reports as its containerRuntimeVersion.
const (
	runtimeName    = "shakedown"
	runtimeVersion = "1.0.0"
	criVersion     = "v1"
)

func (r *Runtime) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: "0.1.0", RuntimeName: runtimeName, RuntimeVersion: runtimeVersion, RuntimeApiVersion: criVersion,
	}, nil
}

// Status is ready as soon as there is a Runtime: New checks what it needs.
func (r *Runtime) Status(_ context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	resp := &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true},
			{Type: runtimeapi.NetworkReady, Status: true},
		}},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}}},
		Features:        &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}
	if verbose {
		ok, why := r.Limits()
		resp.Info = map[string]string{
			"podCIDR": r.cfg.PodCIDR.String(), "limits": strconv.FormatBool(ok), "limitsReason": why,
			"seccomp": "not applied", "apparmor": "not applied",
		}
	}
	return resp, nil
}

func (r *Runtime) RuntimeConfig(context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{
		Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS},
	}, nil
}

// UpdateRuntimeConfig has nothing to do: the pod range is given to New.
func (r *Runtime) UpdateRuntimeConfig(context.Context, *runtimeapi.RuntimeConfig) error { return nil }

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

func (s *sandbox) status() *runtimeapi.PodSandboxStatus {
	net := &runtimeapi.PodSandboxNetworkStatus{}
	if s.ready && s.ip.IsValid() {
		net.Ip = s.ip.String()
	}
	return &runtimeapi.PodSandboxStatus{
		Id: s.id, Metadata: s.cfg.GetMetadata(), State: s.state(), CreatedAt: s.created.UnixNano(),
		Network: net, Labels: s.cfg.GetLabels(), Annotations: s.cfg.GetAnnotations(),
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: s.options()}},
	}
}

func (r *Runtime) PodSandboxStatus(_ context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[id]
	if s == nil {
		return nil, notFound("pod sandbox", id)
	}
	resp := &runtimeapi.PodSandboxStatusResponse{Status: s.status()}
	if verbose {
		resp.Info = map[string]string{"link": s.link, "dir": s.dir}
	}
	return resp, nil
}

func (c *container) status() *runtimeapi.ContainerStatus {
	st := &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.cfg.GetMetadata(), State: c.state,
		CreatedAt: nanos(c.created), StartedAt: nanos(c.started), FinishedAt: nanos(c.finished),
		ExitCode: c.exitCode, Reason: c.reason, Message: c.message,
		Image: c.imageSpec(), ImageRef: c.cfg.GetImage().GetImage(), ImageId: c.image.ID,
		Labels: c.cfg.GetLabels(), Annotations: c.cfg.GetAnnotations(), Mounts: c.cfg.GetMounts(),
		LogPath:   c.logPath,
		Resources: &runtimeapi.ContainerResources{Linux: c.cfg.GetLinux().GetResources()},
	}
	st.StopSignal = signalName(stopSignal(c))
	if c.run != nil {
		groups := make([]int64, len(c.run.who.groups))
		for i, g := range c.run.who.groups {
			groups[i] = int64(g)
		}
		st.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{
			Uid: int64(c.run.who.uid), Gid: int64(c.run.who.gid), SupplementalGroups: groups,
		}}
	}
	return st
}

func signalName(sig unix.Signal) runtimeapi.Signal {
	if n, ok := runtimeapi.Signal_value[unix.SignalName(sig)]; ok {
		return runtimeapi.Signal(n)
	}
	return runtimeapi.Signal_RUNTIME_DEFAULT
}

// imageSpec names the image as the pod does.
func (c *container) imageSpec() *runtimeapi.ImageSpec {
	img := c.cfg.GetImage()
	if u := img.GetUserSpecifiedImage(); u != "" {
		return &runtimeapi.ImageSpec{Image: u, UserSpecifiedImage: u, RuntimeHandler: img.GetRuntimeHandler(), Annotations: img.GetAnnotations()}
	}
	return img
}

func (r *Runtime) ContainerStatus(_ context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return nil, notFound("container", id)
	}
	resp := &runtimeapi.ContainerStatusResponse{Status: c.status()}
	if verbose && c.run != nil {
		info, err := json.Marshal(map[string]any{"pid": c.run.proc.pid, "argv": c.argv, "layers": c.image.Layers})
		if err != nil {
			return nil, fmt.Errorf("container info: %w", err)
		}
		resp.Info = map[string]string{"info": string(info)}
	}
	return resp, nil
}
