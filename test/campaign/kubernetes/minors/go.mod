// This file only says where the module is. Each minor version of Kubernetes has a module file of its own beside it:
// go build -modfile=1.32.mod
module github.com/bursar/bursar/test/campaign/kubernetes/minors

go 1.26.0
