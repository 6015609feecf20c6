package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gravitational/teleport/api/types/wrappers"
	"golang.org/x/crypto/ssh"
)

// Extensions of an SSH user certificate.
const (
	ExtensionRoles  = "teleport-roles"
	ExtensionTraits = "teleport-traits"
	ExtensionRoute  = "teleport-route-to-cluster"
	JoinPrincipal   = "-teleport-internal-join"
	extPTY          = "permit-pty"
	extAgentForward = "permit-agent-forwarding"
	extPortForward  = "permit-port-forwarding"
)

// User is what a user's certificates say.
type User struct {
	Name           string
	Roles          []string
	Traits         map[string][]string
	Logins         []string
	KubeGroups     []string
	KubeUsers      []string
	KubeCluster    string
	RouteToCluster string
	Cluster        string
	Usage          []string // e.g. "usage:kube"
	ForwardAgent   bool
	PortForwarding bool
	Expires        time.Time
}

// Object identifiers of the names in a TLS subject (lib/tlsca of 13.0.0-dev).
func oid(last ...int) asn1.ObjectIdentifier {
	return append(asn1.ObjectIdentifier{1, 3, 9999}, last...)
}

// SignUserSSH signs a user's SSH key.
func (a *Authority) SignUserSSH(key ssh.PublicKey, u User) (*ssh.Certificate, error) {
	roles, err := json.Marshal(map[string]any{"version": "v1", "roles": u.Roles})
	if err != nil {
		return nil, err
	}
	traits, err := marshalTraits(u.Traits)
	if err != nil {
		return nil, err
	}
	ext := map[string]string{
		extPTY: "", ExtensionRoles: string(roles), ExtensionTraits: string(traits), ExtensionRoute: u.RouteToCluster,
	}
	if u.ForwardAgent {
		ext[extAgentForward] = ""
	}
	if u.PortForwarding {
		ext[extPortForward] = ""
	}
	cert := &ssh.Certificate{
		Key: key, KeyId: u.Name, CertType: ssh.UserCert, ValidPrincipals: append(append([]string{}, u.Logins...), JoinPrincipal),
		ValidAfter: uint64(time.Now().Add(-time.Minute).Unix()), ValidBefore: sshTime(u.Expires),
		Permissions: ssh.Permissions{Extensions: ext},
	}
	if err := cert.SignCert(rand.Reader, a.SSH); err != nil {
		return nil, fmt.Errorf("sign key of user %s: %w", u.Name, err)
	}
	return cert, nil
}

// SignUserTLS signs a user's TLS key and returns the certificate as PEM.
func (a *Authority) SignUserTLS(key crypto.PublicKey, u User) ([]byte, error) {
	traits, err := marshalTraits(u.Traits)
	if err != nil {
		return nil, err
	}
	subject := pkix.Name{
		CommonName: u.Name, Organization: u.Roles, OrganizationalUnit: u.Usage, Locality: append(append([]string{}, u.Logins...), JoinPrincipal),
		StreetAddress: []string{u.RouteToCluster}, PostalCode: []string{string(traits)},
	}
	add := func(id asn1.ObjectIdentifier, values ...string) {
		for _, v := range values {
			if v != "" {
				subject.ExtraNames = append(subject.ExtraNames, pkix.AttributeTypeAndValue{Type: id, Value: v})
			}
		}
	}
	add(oid(1, 1), u.KubeUsers...)
	add(oid(1, 2), u.KubeGroups...)
	add(oid(1, 3), u.KubeCluster)
	add(oid(1, 7), u.Cluster)
	return a.signTLS(key, subject, nil, u.Expires)
}

// UserFromTLS reads what SignUserTLS wrote.
func UserFromTLS(cert *x509.Certificate) (User, error) {
	s := cert.Subject
	u := User{Name: s.CommonName, Roles: s.Organization, Usage: s.OrganizationalUnit, Logins: s.Locality, Expires: cert.NotAfter}
	if len(s.StreetAddress) > 0 {
		u.RouteToCluster = s.StreetAddress[0]
	}
	if len(s.PostalCode) > 0 {
		traits, err := UnmarshalTraits([]byte(s.PostalCode[0]))
		if err != nil {
			return u, err
		}
		u.Traits = traits
	}
	for _, name := range s.Names {
		value, ok := name.Value.(string)
		if !ok {
			continue
		}
		switch {
		case name.Type.Equal(oid(1, 1)):
			u.KubeUsers = append(u.KubeUsers, value)
		case name.Type.Equal(oid(1, 2)):
			u.KubeGroups = append(u.KubeGroups, value)
		case name.Type.Equal(oid(1, 3)):
			u.KubeCluster = value
		case name.Type.Equal(oid(1, 7)):
			u.Cluster = value
		}
	}
	return u, nil
}

// UserFromSSH reads what SignUserSSH wrote.
func UserFromSSH(cert *ssh.Certificate) (User, error) {
	ext := cert.Permissions.Extensions
	u := User{Name: cert.KeyId, RouteToCluster: ext[ExtensionRoute], Expires: time.Unix(int64(cert.ValidBefore), 0)}
	for _, p := range cert.ValidPrincipals {
		if p != JoinPrincipal {
			u.Logins = append(u.Logins, p)
		}
	}
	_, u.ForwardAgent = ext[extAgentForward]
	_, u.PortForwarding = ext[extPortForward]
	if raw := ext[ExtensionRoles]; raw != "" {
		var roles struct{ Roles []string }
		if err := json.Unmarshal([]byte(raw), &roles); err != nil {
			return u, fmt.Errorf("read roles of user %s: %w", u.Name, err)
		}
		u.Roles = roles.Roles
	}
	traits, err := UnmarshalTraits([]byte(ext[ExtensionTraits]))
	u.Traits = traits
	return u, err
}

func marshalTraits(traits map[string][]string) ([]byte, error) {
	t := wrappers.Traits(traits)
	b, err := wrappers.MarshalTraits(&t)
	if err != nil {
		return nil, fmt.Errorf("encode traits: %w", err)
	}
	return b, nil
}

// UnmarshalTraits reads traits as they stand in a certificate.
func UnmarshalTraits(b []byte) (map[string][]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var t wrappers.Traits
	if err := wrappers.UnmarshalTraits(b, &t); err != nil {
		return nil, fmt.Errorf("decode traits: %w", err)
	}
	return t, nil
}
