package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"testing"
	"time"
)

func TestCheckChain(t *testing.T) {
	self := func(authorityKey []byte) []byte {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), SubjectKeyId: []byte{1, 2, 3}, AuthorityKeyId: authorityKey}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	own, other := self([]byte{1, 2, 3}), self(nil)
	for _, tc := range []struct {
		why   string
		chain [][]byte
		ok    bool
	}{
		{"self-signed with its own key id", [][]byte{own}, true},
		{"self-signed without an authority key id", [][]byte{other}, false},
		{"self-signed and not alone", [][]byte{own, own}, false},
	} {
		if err := checkChain(tc.chain); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.why, err)
		}
	}
}
