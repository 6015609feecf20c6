package local

import "path/filepath"

type object = map[string]any

var off = object{"enabled": false}

func (c *Cluster) teleport(name string, more object) object {
	t := object{
		"nodename": name, "data_dir": filepath.Join(c.opts.Folder, name), "log": object{"severity": "INFO", "output": "stderr"},
	}
	for k, v := range more {
		t[k] = v
	}
	return t
}

func (c *Cluster) authConfig() object {
	mode := "multiplex"
	if c.opts.Separate {
		mode = "separate"
	}
	auth := object{
		"enabled": true, "cluster_name": c.Name, "listen_addr": c.AuthAPI, "proxy_listener_mode": mode,
		"authentication": object{"type": "local", "second_factor": "off"}, "tokens": []string{"node,proxy:" + token},
	}
	if c.opts.Recording != "" {
		auth["session_recording"] = c.opts.Recording
	}
	return object{"version": "v3", "teleport": c.teleport("auth", nil), "auth_service": auth, "proxy_service": off, "ssh_service": off}
}

func (c *Cluster) proxyConfig(tunnel string) object {
	proxy := object{"enabled": true, "web_listen_addr": c.Web, "public_addr": c.Web}
	if c.opts.Separate {
		proxy["listen_addr"], proxy["tunnel_listen_addr"] = c.SSH, tunnel
		proxy["ssh_public_addr"], proxy["tunnel_public_addr"] = c.SSH, tunnel
	}
	return object{
		"version": "v3", "teleport": c.teleport("proxy", object{"auth_server": c.AuthAPI, "auth_token": token}),
		"proxy_service": proxy, "auth_service": off, "ssh_service": off,
	}
}

func (c *Cluster) nodeConfig(name string, join object, listen string) object {
	more := object{"auth_token": token}
	for k, v := range join {
		more[k] = v
	}
	return object{
		"version": "v3", "teleport": c.teleport(name, more),
		"ssh_service":  object{"enabled": true, "listen_addr": listen, "labels": object{"fleet": "local"}},
		"auth_service": off, "proxy_service": off,
	}
}
