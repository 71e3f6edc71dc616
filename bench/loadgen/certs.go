package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const day = 24 * time.Hour

// curves are the same for client and upstream whatever this Go's defaults are, so
// that runs with different versions compare.
var curves = []tls.CurveID{tls.X25519, tls.CurveP256}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certsCommand makes an upstream's CA and certificate, and, for peers that have to be
// given theirs, an interception CA and the certificates it signs. All are ECDSA P-256.
// NAME-both.pem holds key and certificate.
func certsCommand(args []string) {
	fs := flag.NewFlagSet("certs", flag.ExitOnError)
	dir := fs.String("dir", "certs", "output directory")
	fs.Parse(args)
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		fatal(err)
	}
	upstreamNames := []string{"upstream.test", "*.upstream.test"}
	makeLeaf(*dir, "upstream", makeCA(*dir, "upstream-ca"), upstreamNames)
	interception := makeCA(*dir, "mitm-ca")
	makeLeaf(*dir, "proxy", interception, []string{"localhost"})
	makeLeaf(*dir, "front", interception, upstreamNames)
}

func makeCA(dir, name string) authority {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "bench " + name}, NotAfter: time.Now().Add(365 * day),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return sign(dir, name, template, nil)
}

func makeLeaf(dir, name string, issuer authority, names []string) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, NotAfter: time.Now().Add(90 * day),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	sign(dir, name, template, &issuer)
}

// sign writes NAME.pem, NAME.key and NAME-both.pem; without an issuer it signs itself.
func sign(dir, name string, template *x509.Certificate, issuer *authority) authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		fatal(err)
	}
	if issuer == nil {
		issuer = &authority{template, key}
	}
	template.NotBefore = time.Now().Add(-day)
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.cert, key.Public(), issuer.key)
	if err != nil {
		fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	files := map[string][]byte{".pem": certPEM, ".key": keyPEM, "-both.pem": append(keyPEM, certPEM...)}
	for suffix, content := range files {
		// Readable by all: a peer may drop to another user before it reads them.
		if err := os.WriteFile(filepath.Join(dir, name+suffix), content, 0o644); err != nil {
			fatal(err)
		}
	}
	return authority{cert, key}
}
