package recorder

import (
	"net"

	"github.com/gravitational/teleport/api/types/events"
	"golang.org/x/crypto/ssh"
)

// RefusedLogin leaves the audit event of a certificate that was not let in. Keys without a certificate leave none.
func RefusedLogin(e *Emitter, meta ssh.ConnMetadata, key ssh.PublicKey, client net.Addr, reason error) {
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return
	}
	e.Emit(&events.AuthAttempt{
		Metadata:           events.Metadata{Type: TypeAuth, Code: CodeAuthFailure},
		UserMetadata:       events.UserMetadata{Login: meta.User(), User: cert.KeyId},
		ConnectionMetadata: events.ConnectionMetadata{RemoteAddr: client.String(), LocalAddr: meta.LocalAddr().String()},
		Status:             events.Status{Success: false, Error: reason.Error()},
	})
}
