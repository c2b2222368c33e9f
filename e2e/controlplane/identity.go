package controlplane

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
)

// validity is longer than any test and shorter than what a forgotten token should be good for.
const validity = 7 * 24 * time.Hour

// users of the token file: name → group, which may be empty.
func users() map[string]string {
	return map[string]string{
		"admin":                          "system:masters",
		"system:kube-controller-manager": "",
		"system:kube-scheduler":          "",
	}
}

// writeCredentials writes the authority, the API server's certificate, the key of service accounts, tokens,
// and the kubeconfigs of the control plane's own programs and of the admin.
func (c *ControlPlane) writeCredentials() (err error) {
	if c.pki, err = newPKI(); err != nil {
		return err
	}
	accounts, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	c.tokens = map[string]string{}
	var lines strings.Builder
	for user, group := range users() {
		c.tokens[user] = rand.Text()
		fmt.Fprintf(&lines, "%s,%s,%s,%q\n", c.tokens[user], user, user, group)
	}
	for name, data := range map[string][]byte{
		"apiserver.crt": c.pki.cert, "apiserver.key": c.pki.key,
		"service-accounts.key": accounts, "tokens.csv": []byte(lines.String()),
	} {
		if err := writeFile(c.file("pki", name), data); err != nil {
			return err
		}
	}
	for user := range users() {
		if _, err := c.Kubeconfig(strings.TrimPrefix(user, "system:"), c.config(c.tokens[user])); err != nil {
			return err
		}
	}
	return nil
}

// config has no limit on the rate of requests: tests wait for the API server, not for themselves.
func (c *ControlPlane) config(token string) *rest.Config {
	return &rest.Config{
		Host:            c.URL,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.cert},
		QPS:             -1,
	}
}

// Admin returns a configuration of a client that may do anything.
func (c *ControlPlane) Admin() *rest.Config { return c.config(c.tokens["admin"]) }

// User returns a configuration of a client that acts as any user, in the given groups and as an
// authenticated one. RBAC decides what it may do.
func (c *ControlPlane) User(name string, groups ...string) *rest.Config {
	config := c.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, "system:authenticated")}
	return config
}

// ServiceAccount returns a configuration of a client with a token of an existing service account, as a pod
// would have it.
func (c *ControlPlane) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return nil, err
	}
	seconds := int64(validity / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	return c.config(answer.Status.Token), nil
}

// Kubeconfig writes a client's configuration as a kubeconfig of the given name and returns the file's path.
func (c *ControlPlane) Kubeconfig(name string, config *rest.Config) (string, error) {
	const it = "phasegpu"
	k := clientcmdapi.NewConfig()
	k.Clusters[it] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.AuthInfos[it] = &clientcmdapi.AuthInfo{
		Token:             config.BearerToken,
		Impersonate:       config.Impersonate.UserName,
		ImpersonateGroups: config.Impersonate.Groups,
	}
	k.Contexts[it] = &clientcmdapi.Context{Cluster: it, AuthInfo: it}
	k.CurrentContext = it
	path := c.kubeconfigPath(name)
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return "", fmt.Errorf("kubeconfig %s: %w", name, err)
	}
	return path, nil
}

// AdminKubeconfig is the path of a kubeconfig that may do anything.
func (c *ControlPlane) AdminKubeconfig() string { return c.kubeconfigPath("admin") }

// SchedulerKubeconfig is the path of a kubeconfig of Kubernetes' own user for schedulers.
func (c *ControlPlane) SchedulerKubeconfig() string { return c.kubeconfigPath("kube-scheduler") }

func (c *ControlPlane) kubeconfigPath(name string) string {
	return c.file("kubeconfigs", name+".kubeconfig")
}

// WaitForNamespace waits until pods can be created in a namespace that was just created: until it has its
// default service account.
func (c *ControlPlane) WaitForNamespace(ctx context.Context, namespace string) error {
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		})
	if err != nil {
		return fmt.Errorf("namespace %s has no default service account (see the log of kube-controller-manager): %w",
			namespace, err)
	}
	return nil
}
