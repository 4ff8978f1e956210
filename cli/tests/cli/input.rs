//! Bad input: a message that names file, object, field and value, exit status 2, and no backtrace.
use crate::common::giveway_with;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

#[track_caller]
fn refused(args: &[&str], input: &str, message: &str) {
    let printed = giveway_with(args, None, input);
    assert_eq!((printed.status, printed.out.as_str()), (Some(2), ""), "{}", printed.err);
    assert_eq!(printed.err.trim_end(), format!("error: {message}"));
}

/// A snapshot on standard input, asked about pod/p.
#[track_caller]
fn snapshot(input: &str, message: &str) {
    refused(&["plan", "--snapshot", "-", "--for", "pod/p"], input, message);
}

/// A manifest on standard input, on the small cluster.
#[track_caller]
fn manifest(input: &str, message: &str) {
    refused(&["plan", "-f", "-", "--snapshot", "cluster.yaml"], input, message);
}

const A_LIST: &str = "must be a v1 List, as `kubectl giveway snapshot` writes it, or `kubectl get \
    nodes,namespaces,pods,podgroups.scheduling.giveway.dev,poddisruptionbudgets,priorityclasses,pv,pvc,storageclasses,csidrivers,csinodes,runtimeclasses -A -o yaml` prints it";

#[test]
fn a_snapshot_that_is_no_list() {
    snapshot("{kind: Pod, apiVersion: v1}", &format!("standard input: kind: Invalid value: \"Pod\": {A_LIST}"));
    snapshot("[]", &format!("standard input: kind: Invalid value: \"a plain list\": {A_LIST}"));
    snapshot("hello", &format!("standard input: kind: Invalid value: \"\"hello\"\": {A_LIST}"));
    snapshot("{kind: List, items: 5}", &format!("standard input: kind: Invalid value: \"List\": {A_LIST}"));
}

#[test]
fn a_snapshot_with_something_that_is_no_object() {
    snapshot(
        "{kind: List, items: [{kind: Pod, apiVersion: v1, metadata: {}}]}",
        "standard input: items[0]: metadata.name: Required value: every object has one",
    );
    snapshot("{kind: List, items: [7]}", "standard input: items[0]: apiVersion: Required value: every object has one");
}

#[test]
fn a_preemptor_that_is_not_there() {
    snapshot("{kind: List, items: []}", "standard input: pod/default/p is not in it");
}

#[test]
fn a_quantity_that_cannot_be_read() {
    let pod = "{kind: List, items: [{kind: Pod, apiVersion: v1, metadata: {name: p, namespace: default}, \
               spec: {containers: [{name: c, resources: {requests: {cpu: 1x}}}]}}]}";
    let why = "has an unknown suffix: use one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or an exponent \
               as in 1e3";
    snapshot(
        pod,
        &format!(
            "standard input: Pod default/p: spec.containers[0].resources.requests[cpu]: Invalid value: \"1x\": {why}"
        ),
    );
    manifest(
        "{kind: Job, apiVersion: batch/v1, metadata: {name: j}, spec: {template: {spec: {containers: \
         [{name: c, resources: {requests: {cpu: 1x}}}]}}}}",
        &format!(
            "standard input: Job default/j: spec.template.spec.containers[0].resources.requests[cpu]: Invalid value: \
             \"1x\": {why}"
        ),
    );
}

#[test]
fn a_field_of_the_wrong_type() {
    manifest(
        "{kind: Deployment, apiVersion: apps/v1, metadata: {name: d}, spec: {replicas: many, template: {spec: \
         {containers: [{name: c}]}}}}",
        "standard input: Deployment default/d: spec.replicas: Invalid value: \"many\": must be a whole number, 0 or more",
    );
    manifest(
        "{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {containers: [{name: c}], tolerations: x}}",
        "standard input: Pod default/p: spec.tolerations: invalid type: string \"x\", expected a sequence",
    );
}

#[test]
fn an_object_without_a_pod_template() {
    manifest(
        "{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}",
        "standard input: there is nothing to plan for: it has no pod and no object with a pod template (spec.template); found \
         ConfigMap default/c",
    );
    manifest(
        "",
        "standard input: there is nothing to plan for: it has no pod and no object with a pod template (spec.template); found no \
         object",
    );
}

#[test]
fn a_daemon_set_is_refused_with_a_reason() {
    manifest(
        "{kind: DaemonSet, apiVersion: apps/v1, metadata: {name: d}, spec: {}}",
        "standard input: DaemonSet default/d: kind: Invalid value: \"DaemonSet\": its pods are not placed: each node \
         that suits gets one, and what one of them evicts there is not a choice; plan for a Pod with the same spec and \
         a nodeName affinity instead",
    );
}

#[test]
fn what_admission_refuses() {
    manifest(
        "{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {priorityClassName: none, containers: [{name: c}]}}",
        "standard input: Pod default/p: spec.priorityClassName: Invalid value: \"none\": no PriorityClass with name \
         none was found",
    );
    manifest(
        "{kind: PodGroup, apiVersion: scheduling.giveway.dev/v1alpha1, metadata: {name: g}, spec: {schedulingPolicy: \
         {gang: {minCount: 0}}}}",
        "standard input: PodGroup default/g: spec.schedulingPolicy.gang.minCount: Invalid value: \"0\": must be \
         greater than or equal to 1",
    );
    manifest(
        "{kind: PodGroup, apiVersion: scheduling.giveway.dev/v1alpha1, metadata: {name: g}, spec: {schedulingPolicy: \
         {gang: {minCount: 1}}, priorityClassName: high}}\n---\n{kind: Pod, apiVersion: v1, metadata: {name: p, labels: \
         {scheduling.giveway.dev/pod-group: g}}, spec: {priorityClassName: low, containers: [{name: c}]}}",
        "standard input: Pod default/p: spec.priorityClassName: Invalid value: \"low\": priority class low gives the pod \
         10, below the priority of pod group g, 1000, and a group does not raise the priority of its pods: name class high, or no class, and \
         it gets high from its group",
    );
    manifest(
        "{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {priority: 7, priorityClassName: high, containers: \
         [{name: c}]}}",
        "standard input: Pod default/p: spec.priority: Invalid value: \"7\": the priority class \"high\" gives 1000: \
         leave spec.priority out",
    );
}

#[test]
fn a_namespace_that_contradicts_the_flag() {
    refused(
        &["plan", "-f", "-", "--snapshot", "cluster.yaml", "-n", "b"],
        "{kind: Pod, apiVersion: v1, metadata: {name: p, namespace: a}, spec: {containers: [{name: c}]}}",
        "standard input: Pod a/p: metadata.namespace: Invalid value: \"a\": does not match the namespace \"b\" of the \
         flag -n",
    );
}

#[test]
fn flags_that_cannot_be_used() {
    let usage = |args: &[&str]| {
        let printed = giveway_with(args, None, "");
        assert_eq!(printed.status, Some(2), "{}", printed.err);
        printed.err
    };
    let strategy = usage(&["plan", "--snapshot", "cluster.yaml", "--for", "pod/p", "--strategy", "magic"]);
    assert!(strategy.starts_with("error: invalid value 'magic' for '--strategy <NAME>': must be "), "{strategy}");
    let kind = usage(&["plan", "--snapshot", "cluster.yaml", "--for", "cronjob/p"]);
    assert!(kind.contains("unknown kind \"cronjob\": must be podgroup or pod"), "{kind}");
    let several = usage(&["plan", "--snapshot", "cluster.yaml", "--for", "jobset/p"]);
    let words = "a JobSet has several pod groups: name one as podgroup/NAME";
    assert!(several.contains(words), "{several}");
    let none = usage(&["why", "rayjob/p"]);
    assert!(none.contains("a RayJob has no pod groups: name the RayCluster that it creates"), "{none}");
    let neither = usage(&["plan", "--snapshot", "cluster.yaml"]);
    assert!(neither.contains("--filename <FILE>|--for <KIND/NAME>"), "{neither}");
    let both = usage(&["plan", "--snapshot", "cluster.yaml", "-f", "training.yaml", "--for", "pod/p"]);
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn a_file_that_is_not_there_and_one_that_is_no_yaml() {
    refused(
        &["plan", "--snapshot", "nowhere.yaml", "--for", "pod/p"],
        "",
        "nowhere.yaml: cannot be read: No such file or directory (os error 2)",
    );
    let printed = giveway_with(&["plan", "--snapshot", "-", "--for", "pod/p"], None, "a: [");
    assert_eq!(printed.status, Some(2));
    assert!(printed.err.starts_with("error: standard input: is neither JSON nor YAML: "), "{}", printed.err);
}

#[test]
fn a_cluster_that_cannot_be_reached_is_exit_status_1() {
    let printed = giveway_with(&["plan", "--for", "pod/p"], None, "");
    assert_eq!((printed.status, printed.out.as_str()), (Some(1), ""));
    assert!(printed.err.starts_with("error: kubeconfig: "), "{}", printed.err);
}

/// Answers one SOCKS5 client, and returns the host that it asks for.
fn host_asked_of(proxy: &TcpListener) -> String {
    let (mut client, _) = proxy.accept().unwrap();
    let mut greeting = [0; 2];
    client.read_exact(&mut greeting).unwrap();
    client.read_exact(&mut vec![0; usize::from(greeting[1])]).unwrap();
    client.write_all(&[5, 0]).unwrap();
    let mut request = [0; 5];
    client.read_exact(&mut request).unwrap();
    assert_eq!(request[..4], [5, 1, 0, 3], "a connection to a host by its name");
    let mut host = vec![0; usize::from(request[4])];
    client.read_exact(&mut host).unwrap();
    String::from_utf8(host).unwrap()
}

#[test]
fn a_socks5_proxy_of_the_kubeconfig_is_asked_for_the_api_server_by_its_name() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap();
    let cluster = format!("{{server: 'https://api.example:6443', proxy-url: 'socks5://{address}'}}");
    let config = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, clusters: [{{name: c, cluster: {cluster}}}], \
         users: [{{name: u, user: {{token: t}}}}], contexts: [{{name: c, context: {{cluster: c, user: u}}}}]}}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config).unwrap();
    let asked = std::thread::spawn(move || host_asked_of(&proxy));
    let printed = giveway_with(&["plan", "--for", "pod/p", "--kubeconfig", file.path().to_str().unwrap()], None, "");
    // Ends the thread if the program did not connect.
    drop(TcpStream::connect(address));
    assert_eq!(asked.join().expect(&printed.err), "api.example");
    assert_eq!(printed.status, Some(1), "the proxy closed the connection: {}", printed.err);
}

#[test]
fn commands_that_change_classes_report_missing_and_superfluous_arguments() {
    let rows: [(&[&str], &str); 5] = [
        (&["adopt"], "the following required arguments were not provided:\n  <NAME>..."),
        (&["release"], "the following required arguments were not provided:\n  <NAME>..."),
        (&["release", "--dry-run"], "the following required arguments were not provided:\n  <NAME>..."),
        (&["release", "p", "--all"], "the argument '[NAME]...' cannot be used with '--all'"),
        (
            &["check", "-o", "dot"],
            "invalid value 'dot' for '--output <OUTPUT>'\n  [possible values: table, json, yaml]",
        ),
    ];
    for (args, message) in rows {
        let printed = giveway_with(args, None, "");
        assert_eq!((printed.status, printed.out.as_str()), (Some(2), ""), "{args:?}: {}", printed.err);
        assert!(printed.err.contains(message), "{args:?}: {message} is not in:\n{}", printed.err);
    }
}

#[test]
fn mode_off_needs_a_confirmation_and_cleanup_a_subject() {
    let rows: [(&[&str], &str); 4] = [
        (&["mode"], "the following required arguments were not provided:\n  <MODE>"),
        (&["mode", "pause"], "invalid value 'pause' for '<MODE>'\n  [possible values: enforce, observe, off, chart]"),
        (
            &["mode", "off"],
            "the API server adds no gate to an existing pod: use '--yes' where standard input is not a terminal",
        ),
        (&["cleanup", "taints", "--force"], "unexpected argument '--force' found"),
    ];
    for (args, message) in rows {
        let printed = giveway_with(args, None, "y\n");
        assert_eq!((printed.status, printed.out.as_str()), (Some(2), ""), "{args:?}: {}", printed.err);
        assert!(printed.err.contains(message), "{args:?}: {message} is not in:\n{}", printed.err);
    }
    let printed = giveway_with(&["cleanup", "-n", "team"], None, "");
    assert_eq!((printed.status, printed.out.as_str()), (Some(2), ""), "{}", printed.err);
    let words = "requires a subcommand but one was not provided\n  [subcommands: all, taints, finalizers";
    assert!(printed.err.contains(words), "{}", printed.err);
}

#[test]
fn without_a_kubeconfig_nothing_is_checked_or_changed() {
    for args in [&["check"][..], &["adopt", "high"], &["release", "--all"], &["mode", "off", "--yes"]] {
        let printed = giveway_with(args, None, "");
        assert_eq!((printed.status, printed.out.as_str()), (Some(1), ""), "{args:?}: {}", printed.err);
        assert!(printed.err.starts_with("error: kubeconfig: "), "{args:?}: {}", printed.err);
    }
}

const A_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'";
const A_SUBDOMAIN: &str =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'";

#[test]
fn a_name_that_the_api_server_refuses_is_refused_with_its_field() {
    for name in ["vip\u{e9}", "a/b", "A"] {
        let rows = [
            (
                format!(
                    "{{kind: Pod, apiVersion: v1, metadata: {{name: {name}}}, spec: {{containers: [{{name: c}}]}}}}"
                ),
                "Pod",
            ),
            (
                format!(
                    "{{kind: Job, apiVersion: batch/v1, metadata: {{name: {name}}}, spec: {{template: {{spec: {{containers: \
                     [{{name: c}}]}}}}}}}}"
                ),
                "Job",
            ),
        ];
        for (input, kind) in rows {
            let printed = giveway_with(&["plan", "-f", "-", "--snapshot", "cluster.yaml"], None, &input);
            let words = format!(
                "error: standard input: {kind} default/{name}: metadata.name: Invalid value: \"{name}\": {A_SUBDOMAIN}"
            );
            assert_eq!((printed.status, printed.out.as_str()), (Some(2), ""), "{}", printed.err);
            assert!(printed.err.starts_with(&words), "{words} is not in:\n{}", printed.err);
        }
    }
    let input = "{kind: Pod, apiVersion: v1, metadata: {name: p, namespace: a.b}, spec: {containers: [{name: c}]}}";
    let printed = giveway_with(&["plan", "-f", "-", "--snapshot", "cluster.yaml"], None, input);
    let words = format!("error: standard input: Pod a.b/p: metadata.namespace: Invalid value: \"a.b\": {A_LABEL}");
    assert!(printed.status == Some(2) && printed.err.starts_with(&words), "{}", printed.err);
}

#[test]
fn names_on_the_command_line_never_leave_their_place_in_a_path() {
    for name in ["", "a/b", "a?b", "a b/../c", "..", "-"] {
        let owned = |text: &str| text.replace("NAME", name);
        let rows: [(&[&str], &str); 12] = [
            (&["cleanup", "all", "--force", "--giveway-namespace=NAME"], "--giveway-namespace <NAME>"),
            (&["mode", "off", "--yes", "--giveway-namespace=NAME"], "--giveway-namespace <NAME>"),
            (&["check", "--giveway-namespace=NAME"], "--giveway-namespace <NAME>"),
            (&["adopt", "a", "--giveway-namespace=NAME"], "--giveway-namespace <NAME>"),
            (&["adopt", "--", "NAME"], "<NAME>..."),
            (&["release", "--", "NAME"], "[NAME]..."),
            (&["why", "-A", "--namespace=NAME"], "--namespace <NAME>"),
            (&["why", "pod/NAME"], "[KIND/NAME]"),
            (&["why", "jobset/NAME"], "[KIND/NAME]"),
            (&["plan", "--for=pod/NAME"], "--for <KIND/NAME>"),
            (&["export", "podgroup/NAME"], "<KIND/NAME>"),
            (&["import", "podgroup/NAME"], "[KIND/NAME]"),
        ];
        for (args, flag) in rows {
            let args: Vec<String> = args.iter().map(|arg| owned(arg)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let printed = giveway_with(&args, None, "");
            assert_eq!((printed.status, printed.out.as_str()), (Some(2), ""), "{args:?}: {}", printed.err);
            assert!(printed.err.contains(&format!("'{flag}'")), "{args:?}: {flag} is not in:\n{}", printed.err);
        }
    }
}

/// A file to import.
#[track_caller]
fn import(input: &str, message: &str) {
    refused(&["import", "-f", "-"], input, &format!("standard input: {message}"));
}

#[test]
fn values_that_are_no_map_or_list_are_rejected_before_conversion() {
    let job = |metadata: &str| {
        format!(
            "{{kind: Job, apiVersion: batch/v1, metadata: {{name: j}}, spec: {{template: {{metadata: {metadata}, spec: \
             {{schedulingGroup: {{podGroupName: g}}, containers: []}}}}}}}}"
        )
    };
    import(&job("\"x\""), "Job j: spec.template.metadata: Invalid value: \"x\": must be of type object");
    import(
        &job("{labels: [\"a\"]}"),
        "Job j: spec.template.metadata.labels: Invalid value: [\"a\"]: must be of type object",
    );
    let native = |kind: &str, spec: &str| {
        format!("{{kind: {kind}, apiVersion: scheduling.k8s.io/v1beta1, metadata: {{name: g}}, spec: {spec}}}")
    };
    import(&native("PodGroup", "\"x\""), "PodGroup g: spec: Invalid value: \"x\": must be of type object");
    import(
        &native("Workload", "{podGroupTemplates: [5]}"),
        "Workload g: spec.podGroupTemplates[0]: Invalid value: 5: must be of type object",
    );
    import(
        &native("Workload", "{podGroupTemplates: [{name: 3, schedulingPolicy: 7}]}"),
        "Workload g: spec.podGroupTemplates[0].name: Invalid value: 3: must be of type string",
    );
    import(
        &native("Workload", "{podGroupTemplates: [{name: a, schedulingPolicy: 7}]}"),
        "Workload g: spec.podGroupTemplates[0].schedulingPolicy: Invalid value: 7: must be of type object",
    );
    import(
        &native("Workload", "{podGroupTemplates: x}"),
        "Workload g: spec.podGroupTemplates: Invalid value: \"x\": must be of type array",
    );
    import(
        "{kind: List, apiVersion: v1, items: [5, x, null, {}]}",
        "document 1, items[0]: apiVersion: Required value: every object has one",
    );
    import(
        "{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {schedulingGroup: {podGroupName: 5}, containers: []}}",
        "Pod p: spec.schedulingGroup.podGroupName: Invalid value: 5: must be of type string",
    );
    // Of kinds that are not converted nothing is read but pods.
    let foreign = "{kind: Workload, apiVersion: example.com/v1, metadata: {name: w}, spec: x, items: [1]}";
    let printed = giveway_with(&["import", "-f", "-"], None, foreign);
    assert!(
        printed.status == Some(0) && printed.out.contains("spec: x") && printed.out.contains("- 1"),
        "{}",
        printed.out
    );
    import("{kind: List, apiVersion: v1, items: 5}", "List document 1: items: Invalid value: 5: must be of type array");
}

#[test]
fn values_that_are_nested_too_deeply_are_rejected_immediately() {
    let open = "[".repeat(200_000);
    let words = "standard input: is nested too deeply: at most 128 levels are read";
    for deep in
        [format!("{{\"a\": {open}"), open.clone(), format!("a: {open}"), format!("{{a: {open}"), format!("- - {open}")]
    {
        snapshot(&deep, words);
        manifest(&deep, words);
    }
    let levels = |count: usize| format!("{{\"kind\": {}1{}}}", "[".repeat(count), "]".repeat(count));
    snapshot(&levels(130), words);
    snapshot(&levels(100), &format!("standard input: kind: Invalid value: \"\": {A_LIST}"));
    snapshot("{\"a\": [1,", "standard input: is neither JSON nor YAML: EOF while parsing a value at line 1 column 9");
}
