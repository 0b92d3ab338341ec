package integration

import (
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bursar/bursar/internal/standalone"
)

// adminOf reads the kubeconfig that the server wrote for its administrator.
func adminOf(server *standalone.Server) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", server.AdminKubeconfigPath())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}
