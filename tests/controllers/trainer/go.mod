module giveway.dev/tests/controllers/trainer

go 1.26.0

tool github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager

require github.com/kubeflow/trainer/v2 v2.0.0
