// Package config reads teleport.yaml as the charts render it (versions v1 to
// v3). Every error names the file, the line and what is allowed there.
package config

import "time"

// Config is one configuration file. Keys of the real program that the stand-in
// takes without imitating what they do are typed Ignored and give a warning.
type Config struct {
	Version        string         `yaml:"version"`
	Global         Global         `yaml:"teleport"`
	Auth           Auth           `yaml:"auth_service"`
	Proxy          Proxy          `yaml:"proxy_service"`
	SSH            SSH            `yaml:"ssh_service"`
	Kube           Kube           `yaml:"kubernetes_service"`
	Apps           OtherService   `yaml:"app_service"`
	Databases      OtherService   `yaml:"db_service"`
	WindowsDesktop OtherService   `yaml:"windows_desktop_service"`
	Metrics        MetricsService `yaml:"metrics_service"`
	Tracing        OtherService   `yaml:"tracing_service"`
	Discovery      OtherService   `yaml:"discovery_service"`

	// Path is the file that was read, for messages.
	Path string `yaml:"-"`
	// Warnings are keys that have no effect here, one sentence each.
	Warnings []string `yaml:"-"`
}

// Ignored is the value of a key that the stand-in takes and does not imitate.
type Ignored struct{}

// Global is the section `teleport`.
type Global struct {
	NodeName     string      `yaml:"nodename"`
	DataDir      string      `yaml:"data_dir"`
	PIDFile      string      `yaml:"pid_file"`
	AuthToken    string      `yaml:"auth_token"`
	AuthServer   string      `yaml:"auth_server"`
	AuthServers  []string    `yaml:"auth_servers"`
	ProxyServer  string      `yaml:"proxy_server"`
	JoinParams   JoinParams  `yaml:"join_params"`
	CAPin        []string    `yaml:"ca_pin"`
	AdvertiseIP  string      `yaml:"advertise_ip"`
	DiagAddr     string      `yaml:"diag_addr"`
	Limits       Limits      `yaml:"connection_limits"`
	Log          Log         `yaml:"log"`
	Logger       Log         `yaml:"logger"`
	Storage      Storage     `yaml:"storage"`
	Cache        Ignored     `yaml:"cache"`
	CipherSuites Ignored     `yaml:"ciphersuites"`
	Ciphers      Ignored     `yaml:"ciphers"`
	KEXAlgos     Ignored     `yaml:"kex_algos"`
	MACAlgos     Ignored     `yaml:"mac_algos"`
	CASigAlgo    Ignored     `yaml:"ca_signature_algo"`
	Keys         Ignored     `yaml:"keys"`
	Standin      StandinKeys `yaml:"standin"`
}

// StandinKeys are for the stand-in alone; environment variables win over them.
type StandinKeys struct {
	BehaveAs   string  `yaml:"behave_as"`
	TimeFactor float64 `yaml:"time_factor"`
	Faults     string  `yaml:"faults"`
}

// JoinParams says how to join.
type JoinParams struct {
	Method    string  `yaml:"method" allowed:"token kubernetes"`
	TokenName string  `yaml:"token_name"`
	Azure     Ignored `yaml:"azure"`
}

// Limits is `connection_limits`; MaxConnections is per client address.
type Limits struct {
	MaxConnections int64   `yaml:"max_connections"`
	MaxUsers       int     `yaml:"max_users"`
	Rates          Ignored `yaml:"rates"`
}

// Log is where log lines go and how they look.
type Log struct {
	Output   string    `yaml:"output"`
	Severity string    `yaml:"severity"`
	Format   LogFormat `yaml:"format"`
}

// LogFormat is the shape of a log line.
type LogFormat struct {
	Output      string   `yaml:"output"`
	ExtraFields []string `yaml:"extra_fields"`
}

// Storage is where the auth keeps its state: `dir` (each auth its own) or `etcd`
// (shared by all).
type Storage struct {
	Type        string   `yaml:"type" allowed:"dir sqlite lite bolt etcd"`
	Path        string   `yaml:"path"`
	Peers       []string `yaml:"peers"`
	Prefix      string   `yaml:"prefix"`
	TLSCertFile string   `yaml:"tls_cert_file"`
	TLSKeyFile  string   `yaml:"tls_key_file"`
	TLSCAFile   string   `yaml:"tls_ca_file"`
	Insecure    bool     `yaml:"insecure"`
	Username    string   `yaml:"username"`
	Password    string   `yaml:"password_file"`
	SessionsURI string   `yaml:"audit_sessions_uri"`
	EventsURI   []string `yaml:"audit_events_uri"`
	SyncMode    Ignored  `yaml:"sync"`
	JournalMode Ignored  `yaml:"journal"`
	PollPeriod  Ignored  `yaml:"poll_stream_period"`
	DialTimeout Ignored  `yaml:"dial_timeout"`
	MaxMsgSize  Ignored  `yaml:"etcd_max_client_msg_size_bytes"`
}

// Auth is `auth_service`.
type Auth struct {
	Enabled            Flag           `yaml:"enabled"`
	ListenAddr         string         `yaml:"listen_addr"`
	ProxyProtocol      Ignored        `yaml:"proxy_protocol"`
	ClusterName        string         `yaml:"cluster_name"`
	Tokens             []StaticToken  `yaml:"tokens"`
	Authentication     Authentication `yaml:"authentication"`
	SessionRecording   string         `yaml:"session_recording" allowed:"node node-sync proxy proxy-sync off"`
	ProxyChecksHosts   *bool          `yaml:"proxy_checks_host_keys"`
	PublicAddr         []string       `yaml:"public_addr"`
	IdleTimeout        time.Duration  `yaml:"client_idle_timeout"`
	KeepAliveInterval  time.Duration  `yaml:"keep_alive_interval"`
	KeepAliveCountMax  int64          `yaml:"keep_alive_count_max"`
	ProxyListenerMode  string         `yaml:"proxy_listener_mode" allowed:"separate multiplex"`
	RoutingStrategy    string         `yaml:"routing_strategy" allowed:"unambiguous_match most_recent"`
	TunnelStrategy     TunnelStrategy `yaml:"tunnel_strategy"`
	LicenseFile        Ignored        `yaml:"license_file"`
	ReverseTunnels     Ignored        `yaml:"reverse_tunnels"`
	DisconnectExpired  Ignored        `yaml:"disconnect_expired_cert"`
	SessionControl     Ignored        `yaml:"session_control_timeout"`
	KubeconfigFile     Ignored        `yaml:"kubeconfig_file"`
	IdleTimeoutMessage Ignored        `yaml:"client_idle_timeout_message"`
	MessageOfTheDay    Ignored        `yaml:"message_of_the_day"`
	WebIdleTimeout     Ignored        `yaml:"web_idle_timeout"`
	CAKeyParams        Ignored        `yaml:"ca_key_params"`
	PingInterval       Ignored        `yaml:"proxy_ping_interval"`
	LoadAllCAs         Ignored        `yaml:"load_all_cas"`
}

// TunnelStrategy is how agents choose proxies; only agent_mesh is imitated.
type TunnelStrategy struct {
	Type  string `yaml:"type" allowed:"agent_mesh"`
	Count int    `yaml:"agent_connection_count"`
}

// Authentication is how people log in. The stand-in lets nobody log in by
// password: identities come from `tctl auth sign`.
type Authentication struct {
	Type           string  `yaml:"type" allowed:"local github oidc saml"`
	SecondFactor   string  `yaml:"second_factor" allowed:"off otp webauthn on optional u2f"`
	ConnectorName  string  `yaml:"connector_name"`
	LocalAuth      *bool   `yaml:"local_auth"`
	LockingMode    string  `yaml:"locking_mode" allowed:"strict best_effort"`
	Passwordless   *bool   `yaml:"passwordless"`
	Webauthn       Ignored `yaml:"webauthn"`
	U2F            Ignored `yaml:"u2f"`
	RequireMFAType Ignored `yaml:"require_session_mfa"`
	DeviceTrust    Ignored `yaml:"device_trust"`
}

// Proxy is `proxy_service`.
type Proxy struct {
	Enabled           Flag          `yaml:"enabled"`
	ListenAddr        string        `yaml:"listen_addr"`        // SSH, 3023
	WebAddr           string        `yaml:"web_listen_addr"`    // 3080
	TunnelAddr        string        `yaml:"tunnel_listen_addr"` // 3024
	KubeAddr          string        `yaml:"kube_listen_addr"`   // 3026; empty: only on the web port
	Kubernetes        KubeProxy     `yaml:"kubernetes"`
	PublicAddr        []string      `yaml:"public_addr"`
	SSHPublicAddr     []string      `yaml:"ssh_public_addr"`
	TunnelPublicAddr  []string      `yaml:"tunnel_public_addr"`
	KubePublicAddr    []string      `yaml:"kube_public_addr"`
	KeyFile           string        `yaml:"https_key_file"`
	CertFile          string        `yaml:"https_cert_file"`
	KeyPairs          []KeyPair     `yaml:"https_keypairs"`
	KeyPairsReload    time.Duration `yaml:"https_keypairs_reload_interval"`
	ACME              ACME          `yaml:"acme"`
	ProxyProtocol     Ignored       `yaml:"proxy_protocol"`
	PeerAddr          Ignored       `yaml:"peer_listen_addr"`
	PeerPublicAddr    Ignored       `yaml:"peer_public_addr"`
	MySQLAddr         Ignored       `yaml:"mysql_listen_addr"`
	MySQLPublicAddr   Ignored       `yaml:"mysql_public_addr"`
	PostgresAddr      Ignored       `yaml:"postgres_listen_addr"`
	PostgresPublic    Ignored       `yaml:"postgres_public_addr"`
	MongoAddr         Ignored       `yaml:"mongo_listen_addr"`
	MongoPublicAddr   Ignored       `yaml:"mongo_public_addr"`
	TrustXForwardedIP Ignored       `yaml:"trust_x_forwarded_for"`
}

// KubeProxy is the older way to say kube_listen_addr.
type KubeProxy struct {
	Enabled     Flag     `yaml:"enabled"`
	ListenAddr  string   `yaml:"listen_addr"`
	PublicAddr  []string `yaml:"public_addr"`
	Kubeconfig  Ignored  `yaml:"kubeconfig_file"`
	ClusterName Ignored  `yaml:"cluster_name"`
}

// KeyPair is a web certificate.
type KeyPair struct {
	KeyFile  string `yaml:"key_file"`
	CertFile string `yaml:"cert_file"`
}

// ACME would fetch a web certificate; the stand-in refuses it when enabled.
type ACME struct {
	Enabled Flag    `yaml:"enabled"`
	Email   Ignored `yaml:"email"`
	URI     Ignored `yaml:"uri"`
}

// SSH is `ssh_service`. It is on unless it is switched off, as in the real one.
type SSH struct {
	Enabled           Flag              `yaml:"enabled"`
	ListenAddr        string            `yaml:"listen_addr"`
	PublicAddr        []string          `yaml:"public_addr"`
	Labels            map[string]string `yaml:"labels"`
	Commands          Ignored           `yaml:"commands"`
	PortForwarding    *bool             `yaml:"port_forwarding"`
	FileCopy          *bool             `yaml:"ssh_file_copy"`
	Namespace         Ignored           `yaml:"namespace"`
	PAM               Ignored           `yaml:"pam"`
	EnhancedRecording Ignored           `yaml:"enhanced_recording"`
	RestrictedSession Ignored           `yaml:"restricted_session"`
	PermitUserEnv     Ignored           `yaml:"permit_user_env"`
	X11               Ignored           `yaml:"x11"`
	NoHostUser        Ignored           `yaml:"disable_create_host_user"`
}

// Kube is `kubernetes_service`.
type Kube struct {
	Enabled        Flag              `yaml:"enabled"`
	ListenAddr     string            `yaml:"listen_addr"`
	PublicAddr     []string          `yaml:"public_addr"`
	KubeconfigFile string            `yaml:"kubeconfig_file"`
	ClusterName    string            `yaml:"kube_cluster_name"`
	Labels         map[string]string `yaml:"labels"`
	Commands       Ignored           `yaml:"commands"`
	Resources      Ignored           `yaml:"resources"`
}

// OtherService is a service that the stand-in does not have; switching it on
// gives a warning.
type OtherService struct {
	Enabled Flag `yaml:"enabled"`
}

// MetricsService would serve /metrics apart from the diagnostics address.
type MetricsService struct {
	Enabled    Flag   `yaml:"enabled"`
	ListenAddr string `yaml:"listen_addr"`
}
