package scenarios

// Session is what one synthetic session does. Which of the fields a behaviour
// has is said by the table behaviours.
type Session struct {
	Kind      string       `json:"kind"`
	Behaviour string       `json:"behaviour"`
	Length    Distribution `json:"length,omitzero"`     // how long it is held once open
	Pace      Distribution `json:"pace,omitzero"`       // between lines, calls, commands
	Keepalive Span         `json:"keepalive,omitempty"` // interval; a path is dead after two without answer
	LineBytes int          `json:"lineBytes,omitempty"`
	Rate      int64        `json:"rate,omitempty"`      // bytes per second
	Size      int64        `json:"size,omitempty"`      // bytes
	Direction string       `json:"direction,omitempty"` // up or down
	Command   string       `json:"command,omitempty"`
	Exit      int          `json:"exit,omitempty"` // status expected of Command
	Channels  int          `json:"channels,omitempty"`
	Script    []Line       `json:"script,omitempty"`
	Timeout   Span         `json:"timeout"` // for opening
	// Protocol carries a kube-exec session: websocket (empty) or spdy.
	Protocol string `json:"protocol,omitempty"`
}

// Line is one line of a script: exactly one of the three.
type Line struct {
	Send   string `json:"send,omitempty"`
	Expect string `json:"expect,omitempty"` // regular expression, RE2
	Wait   Span   `json:"wait,omitempty"`
}

// Behaviour is a row of the table: what a session of that behaviour does, for
// which kinds it exists and which fields it has.
type Behaviour struct {
	Name  string
	Doc   string
	Kinds []string
	Has   []string // fields beside kind, behaviour, timeout, keepalive
	Needs []string // of these, those without a default
}

// The kinds of sessions.
const (
	SSH             = "ssh"
	KubeExec        = "kube-exec"
	KubeWatch       = "kube-watch"
	KubePortForward = "kube-port-forward"
	KubeAPI         = "kube-api"
)

// SessionKinds lists the kinds of sessions.
func SessionKinds() []string {
	return []string{SSH, KubeExec, KubeWatch, KubePortForward, KubeAPI}
}

// Behaviours is the table of all behaviours.
func Behaviours() []Behaviour {
	terminals := []string{SSH, KubeExec}
	return []Behaviour{
		{"interactive", "types numbered, checksummed lines at a pace and checks each echo", terminals, []string{"length", "pace", "lineBytes"}, []string{"length"}},
		{"bulk", "lets the far side write so many bytes a second and reads them all", terminals, []string{"length", "rate"}, []string{"length", "rate"}},
		{"idle", "stays open and silent, but for keep-alives", []string{SSH, KubeExec, KubePortForward}, []string{"length"}, []string{"length"}},
		{"command", "runs one command and checks its exit status", terminals, []string{"command", "exit", "length"}, []string{"command"}},
		{"channels", "holds many terminals on one connection, each typing lines and each a session of its own; arrivals are connections", []string{SSH}, []string{"length", "pace", "lineBytes", "channels"}, []string{"length", "channels"}},
		{"transfer", "copies so many bytes one way and checks that they came whole", terminals, []string{"size", "direction", "rate"}, []string{"size"}},
		{"watch", "watches pods and counts what comes", []string{KubeWatch}, []string{"length"}, []string{"length"}},
		{"calls", "lists pods at a pace, one call after another on one connection", []string{KubeAPI}, []string{"length", "pace"}, []string{"length"}},
		{"scripted", "sends, expects and waits as the script says", terminals, []string{"script"}, []string{"script"}},
	}
}
