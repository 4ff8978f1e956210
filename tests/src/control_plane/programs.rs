//! The command lines of the control plane's programs.

use super::options::{CONTROLLER_MANAGER, Options, SCHEDULER};
use super::ports::Block;
use super::process::Program;
use super::version::Version;
use crate::paths;
use anyhow::Result;
use serde_json::json;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Cluster IP of the Service `kubernetes`, by which pods reach the API server.
pub(super) const SERVICE: &str = "10.0.0.1";

/// Returns etcd without durable writes, because test data need not survive a power failure.
pub(super) fn etcd(directory: &Path, ports: &Block) -> Result<Program> {
    let client = format!("http://127.0.0.1:{}", ports.etcd());
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer());
    Ok(program(
        directory,
        "etcd",
        paths::control_plane_program("server")?,
        &[
            "--name=giveway".to_owned(),
            format!("--data-dir={}", directory.join("etcd").display()),
            "--unsafe-no-fsync=true".to_owned(),
            "--quota-backend-bytes=4294967296".to_owned(),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=giveway={peer}"),
        ],
    ))
}

/// Returns the API server. With the address of a machine it also serves pods of real nodes.
pub(super) fn api_server(
    directory: &Path,
    ports: &Block,
    options: &Options,
    address: Option<Ipv4Addr>,
) -> Result<Program> {
    let file = |name: &str| directory.join("pki").join(name).display().to_string();
    let mut args = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd()),
        format!("--secure-port={}", ports.api_server()),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--cert-dir={}", directory.join("pki").display()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", file("service-account.pub")),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--audit-policy-file={}", paths::repository().join("tests/controlplane/audit-policy.yaml").display()),
        format!("--audit-log-path={}", directory.join("audit.log").display()),
        "--audit-log-maxsize=100000".to_owned(),
    ];
    match address {
        None => args.extend(
            ["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"]
                .map(str::to_owned),
        ),
        Some(address) => args.extend([
            "--bind-address=0.0.0.0".to_owned(),
            format!("--advertise-address={address}"),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
        ]),
    }
    args.extend(options.feature_gates());
    if options.in_tree {
        args.push("--runtime-config=scheduling.k8s.io/v1beta1=true".to_owned());
    }
    args.extend(options.server_args.iter().cloned());
    kubernetes(directory, "kube-apiserver", options.kubernetes, &args)
}

pub(super) fn controller_manager(directory: &Path, options: &Options) -> Result<Program> {
    let pki = directory.join("pki");
    let mut args = vec![
        format!("--kubeconfig={}", kubeconfig(directory, CONTROLLER_MANAGER)),
        "--use-service-account-credentials=true".to_owned(),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        format!("--service-account-private-key-file={}", pki.join("service-account.key").display()),
        format!("--root-ca-file={}", pki.join("ca.crt").display()),
        // Higher client limits, so that large Jobs are created quickly.
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
    ];
    args.extend(options.feature_gates());
    args.extend(options.controller_args.iter().cloned());
    kubernetes(directory, CONTROLLER_MANAGER, options.kubernetes, &args)
}

pub(super) fn scheduler(directory: &Path, options: &Options) -> Result<Program> {
    let mut args = vec![
        format!("--kubeconfig={}", kubeconfig(directory, SCHEDULER)),
        // Leader election is enabled as in other clusters, because Giveway reads the scheduler's Lease.
        "--leader-elect=true".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    args.extend(options.feature_gates());
    if let Some((rate, burst)) = options.scheduler_rate {
        args.push(format!("--kube-api-qps={rate}"));
        args.push(format!("--kube-api-burst={burst}"));
    }
    if let Some(config) = &options.scheduler_config {
        // With a file kube-scheduler ignores the flags for its client.
        let mut file = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": kubeconfig(directory, SCHEDULER)}});
        if let (Some(file), Some(config)) = (file.as_object_mut(), config.as_object()) {
            file.extend(config.clone());
        }
        std::fs::write(scheduler_config(directory), file.to_string())?;
        args.push(format!("--config={}", scheduler_config(directory).display()));
    }
    kubernetes(directory, SCHEDULER, options.kubernetes, &args)
}

/// Returns the file with kube-scheduler's configuration, if it has one.
pub(super) fn scheduler_config(directory: &Path) -> PathBuf {
    directory.join("scheduler-config.json")
}

/// Returns kwok, which simulates nodes and kubelets.
pub(super) fn kwok(directory: &Path) -> Result<Program> {
    Ok(program(
        directory,
        "kwok",
        paths::control_plane_program("kwok")?,
        &[
            format!("--kubeconfig={}", kubeconfig(directory, "kwok")),
            format!("--config={}", paths::repository().join("tests/controlplane/stages.yaml").display()),
            "--manage-all-nodes=false".to_owned(),
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
        ],
    ))
}

fn kubeconfig(directory: &Path, name: &str) -> String {
    directory.join(format!("{name}.kubeconfig")).display().to_string()
}

fn kubernetes(directory: &Path, name: &str, version: Version, args: &[String]) -> Result<Program> {
    Ok(program(directory, name, version.program(name)?, args))
}

fn program(directory: &Path, name: &str, path: PathBuf, args: &[String]) -> Program {
    Program {
        name: name.to_owned(),
        path,
        args: args.to_vec(),
        // Several control planes share two cores, so each program uses few threads and collects garbage less often.
        env: [("GOMAXPROCS", "2"), ("GOGC", "400")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        directory: directory.to_path_buf(),
    }
}
