package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// serviceAccountDir is where Kubernetes puts a pod's credentials.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

func denied(format string, args ...any) error {
	return status.Errorf(codes.PermissionDenied, format, args...)
}

// tokenReview is the part of authentication.k8s.io/v1 that matters here.
type tokenReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Token string `json:"token"`
	} `json:"spec"`
	Status struct {
		Authenticated bool   `json:"authenticated"`
		Error         string `json:"error"`
		User          struct {
			Username string `json:"username"`
		} `json:"user"`
	} `json:"status"`
}

// checkServiceAccount asks the API server whose token it is and compares with
// the allow rules.
func (a *Auth) checkServiceAccount(ctx context.Context, t *Token, idToken string) error {
	if t.Spec.Kubernetes == nil {
		return denied("token has no kubernetes rules")
	}
	username, err := reviewToken(ctx, inCluster(), idToken)
	if err != nil {
		return denied("kubernetes token review: %v", err)
	}
	name, ok := strings.CutPrefix(username, "system:serviceaccount:")
	if !ok {
		return denied("kubernetes token belongs to %q, which is no service account", username)
	}
	for _, rule := range t.Spec.Kubernetes.Allow {
		if rule.ServiceAccount == name {
			return nil
		}
	}
	return denied("service account %q is not allowed to join by this token", name)
}

// apiServer is how to reach the Kubernetes API.
type apiServer struct {
	URL    string
	Client *http.Client
	Token  string
	err    error
}

func inCluster() apiServer {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" {
		return apiServer{err: errors.New("not in a Kubernetes cluster: KUBERNETES_SERVICE_HOST is not set")}
	}
	dir := serviceAccountDir
	if d := os.Getenv("STANDIN_SERVICE_ACCOUNT_DIR"); d != "" {
		dir = d
	}
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	pem, caErr := os.ReadFile(filepath.Join(dir, "ca.crt"))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return apiServer{
		URL: "https://" + net.JoinHostPort(host, port), Token: strings.TrimSpace(string(token)), err: errors.Join(err, caErr),
		Client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true,
		}},
	}
}

// reviewToken returns the user name that a token stands for.
func reviewToken(ctx context.Context, api apiServer, token string) (string, error) {
	if api.err != nil {
		return "", api.err
	}
	review := tokenReview{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	review.Spec.Token = token
	body, err := json.Marshal(review)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, api.URL+"/apis/authentication.k8s.io/v1/tokenreviews", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+api.Token)
	resp, err := api.Client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("API server answered %s", resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&review); err != nil {
		return "", err
	}
	if !review.Status.Authenticated {
		return "", fmt.Errorf("token is not valid: %s", review.Status.Error)
	}
	return review.Status.User.Username, nil
}
