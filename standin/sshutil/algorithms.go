package sshutil

import "golang.org/x/crypto/ssh"

// Algorithms are those of the real program's default configuration (13.0.0-dev). Without post-quantum key exchange a handshake also leaves smaller buffers behind.
func Algorithms() ssh.Config {
	return ssh.Config{
		KeyExchanges: []string{"curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256", "ecdh-sha2-nistp384", "ecdh-sha2-nistp521"},
		Ciphers:      []string{"aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr"},
		MACs:         []string{"hmac-sha2-256-etm@openssh.com", "hmac-sha2-256"},
	}
}
