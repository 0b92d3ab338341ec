// Package rbac carries the roles of people, services and Bursar itself, as YAML for kubectl and embedded for the
// server.
package rbac

import (
	"embed"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// ForUsers returns the ClusterRoles of people and services. The caller owns the objects. An error means a mistake in
// the build: a file without such a role, or with unknown fields.
func ForUsers() ([]*rbacv1.ClusterRole, error) {
	return readAll[rbacv1.ClusterRole]("ClusterRole", "platform-admin", "quota-manager", "quota-approver", "journal-reader", "tenant-admin", "tenant-viewer", "project-owner", "project-owner-quotas", "owning-service", "break-glass", "metrics-reader")
}

// Operator has the roles of Bursar itself.
type Operator struct {
	// Role and Kinds are for the whole cluster; the rules of Kinds come from administrators.
	Role, Kinds *rbacv1.ClusterRole
	// Install is needed where nobody else installs the CRDs.
	Install *rbacv1.ClusterRole
	// System is only for the system namespace.
	System *rbacv1.Role
}

// ForOperator returns the roles of Bursar itself, with the given system namespace. The caller owns the objects. Errors
// are as those of [ForUsers].
func ForOperator(systemNamespace string) (Operator, error) {
	roles, err := readAll[rbacv1.ClusterRole]("ClusterRole", "operator", "operator-kinds", "operator-install")
	if err != nil {
		return Operator{}, err
	}
	system, err := readAll[rbacv1.Role]("Role", "operator-system")
	if err != nil {
		return Operator{}, err
	}
	system[0].Namespace = systemNamespace
	return Operator{Role: roles[0], Kinds: roles[1], Install: roles[2], System: system[0]}, nil
}

func readAll[T any](kind string, names ...string) ([]*T, error) {
	roles := make([]*T, 0, len(names))
	for _, name := range names {
		content, err := files.ReadFile(name + ".yaml")
		if err != nil {
			return nil, fmt.Errorf("read the embedded role %s: %w", name, err)
		}
		role, err := decode[T](kind, content)
		if err != nil {
			return nil, fmt.Errorf("decode the role %s: %w", name, err)
		}
		roles = append(roles, role)
	}
	return roles, nil
}

func decode[T any](kind string, content []byte) (*T, error) {
	var header struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(content, &header); err != nil {
		return nil, err
	}
	if header.Kind != kind || header.APIVersion != rbacv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("it is a %s of %s", header.Kind, header.APIVersion)
	}
	role := new(T)
	if err := yaml.UnmarshalStrict(content, role); err != nil {
		return nil, err
	}
	return role, nil
}
