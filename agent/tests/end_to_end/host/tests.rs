//! The agent of a host, by itself: what it samples, serves and leaves behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use aya::programs::loaded_programs;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use test_support::child;

use super::{
    super::{
        capture::Running,
        dashboard,
        machine::{self, stolen_time},
        pprof,
        target::{Target, mortal},
        whole::{self, Kind, Location},
    },
    Host, PROFILES, RATE, SECOND, SOCKET, assert_busy, count, cpu_time, get_at_socket, profiles,
    request_at_socket, request_status_and_body, service, times_run, wait_for_cpu, with_exporters,
};

/// Stops a process with a single thread: the CPU time that it has used, which is all that it will use, and how often it
/// began to run.
fn used_until_stopped(target: &Target) -> (Duration, u64) {
    let pid = Pid::from_raw(target.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    thread::sleep(Duration::from_millis(50));
    (cpu_time(target), times_run(target))
}

/// Asserts that there are as many samples as the CPU time between `least` and `most` makes, of a process that began to
/// run so many times; else shows `about`.
fn assert_sampled(
    samples: u64,
    (least, most): (Duration, Duration),
    times_run: u64,
    about: &impl Debug,
) {
    /// Switches to another process and back of a quiet host.
    const SWITCHES: f64 = 4.0;
    let due = |time: Duration| time.as_secs_f64() * f64::from(u32::try_from(RATE).unwrap());
    // Each is an error of up to a sample, in one direction as likely as in the other.
    let times_run = f64::from(u32::try_from(times_run).unwrap());
    let chance = SWITCHES.max(1.5 * times_run.sqrt());
    let (least, most) = (due(least) * 0.96 - chance, due(most) * 1.04 + chance);
    let found = f64::from(u32::try_from(samples).unwrap());
    assert!(
        (least..most).contains(&found),
        "{least} {found} {most}: {about:?}"
    );
}

/// A configuration with one exporter, of type `file`.
fn in_folder(folder: &Path, others: &str) -> String {
    with_exporters(folder, &[], others)
}

#[test]
fn every_process_of_a_host_is_profiled_and_every_sample_is_accounted_for() {
    let _machine = machine::alone();
    let before = service("busy", "before");
    let stolen_before = stolen_time();
    let used_before = cpu_time(&before);
    let host = Host::start("");
    let used_since = cpu_time(&before);
    wait_for_cpu(&before, SECOND);
    let after = service("busy", "after");
    wait_for_cpu(&after, SECOND);
    // Two at a time: how often one is met that shares its CPU with another is a matter of chance.
    let (before, before_times_run) = used_until_stopped(&before);
    let mut shell = mortal("sh");
    shell.env("OTEL_SERVICE_NAME", "shell");
    shell.args(["-c", "echo ready; while :; do :; done"]);
    let shell = Target::from_command(shell);
    wait_for_cpu(&shell, SECOND);
    let (after, after_times_run) = used_until_stopped(&after);
    let (shell, shell_times_run) = used_until_stopped(&shell);
    let stolen = stolen_time().saturating_sub(stolen_before);
    // The last window must be exported before the metrics are read.
    thread::sleep(Duration::from_secs(3));
    let metrics = host.metrics();
    let profiles = host.end();

    for name in ["before", "after"] {
        assert_busy(&profiles[name]);
    }
    let (least, most) = (
        before.saturating_sub(used_since),
        before.saturating_sub(used_before),
    );
    let samples: BTreeMap<_, _> = profiles
        .iter()
        .map(|(service, profile)| (&**service, profile.total()))
        .collect();
    for (service, least, most, times_run) in [
        ("before", least, most, before_times_run),
        ("after", after, after, after_times_run),
        ("shell", shell, shell, shell_times_run),
    ] {
        let about = (service, times_run, &samples);
        assert_sampled(samples[service], (least, most + stolen), times_run, &about);
    }
    for lost in [
        "profiling_agent_samples_lost_total",
        "profiling_agent_window_lost_samples_total",
        "profiling_agent_unknown_process_samples_total",
        "profiling_agent_process_events_lost_total",
        "profiling_agent_untracked_processes_total",
    ] {
        assert!(metrics[lost].abs() < f64::EPSILON, "{lost}: {metrics:?}");
    }
    let total: u64 = samples.values().sum();
    let exported = metrics["profiling_agent_profile_samples_total"];
    // Samples taken after the metrics were read are only in the profiles.
    let total = f64::from(u32::try_from(total).unwrap());
    assert!(total >= exported && exported > 0.0, "{total} {exported}");
    let delivered = metrics[r#"profiling_agent_export_delivered_total{exporter="local"}"#];
    assert!((delivered - metrics["profiling_agent_profiles_total"]).abs() < f64::EPSILON);
}

#[test]
fn kernel_threads_have_their_own_service() {
    let _machine = machine::alone();
    let host = Host::start("thread_labels: true");
    let terminal = service("terminal", "terminal");
    let is_function =
        |name| move |location: &Location| location.lines[0].function.starts_with(name);
    child::wait_until("a kernel thread is seen to bring what was written", || {
        let folder = host.folder.path().join(PROFILES);
        // It is made with the first profile.
        if !folder.exists() {
            return false;
        }
        let files = whole::files(&folder, "_kernel_");
        let mut stacks = files
            .values()
            .flat_map(|path| whole::of_pprof(&fs::read(path).unwrap()).stacks);
        stacks.any(|(stack, _)| stack.iter().any(is_function("flush_to_ldisc")))
    });
    drop(terminal);
    let folder = host.stop();
    for path in whole::files(&folder.path().join(PROFILES), "_kernel_").values() {
        let file = fs::read(path).unwrap();
        for stack in whole::of_pprof(&file).stacks.keys() {
            assert!(stack.iter().all(|location| location.kind == Kind::Kernel));
            // The entry of kernel threads. The kernel cannot unwind its own thunks, which
            // change the stack without a frame.
            assert!(
                is_function("ret_from_fork")(stack.last().unwrap())
                    || stack.len() == 1 && is_function("__x86_")(&stack[0]),
                "{stack:?}"
            );
        }
        for sample in pprof::read(&file).samples {
            assert!(!sample.thread.name.is_empty(), "{sample:?}");
        }
    }
}

#[test]
fn every_metric_of_the_dashboard_exists() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let host = Host::start("events: [cpu, wall]");
    wait_for_cpu(&busy, SECOND);
    // The duration of a window and its export.
    thread::sleep(Duration::from_secs(3));
    let metrics = host.metrics();
    host.stop();
    let names = metrics.keys().map(|name| name.split('{').next().unwrap());
    let mut existing: BTreeSet<_> = names.collect();
    existing.extend(dashboard::SOMETIMES);
    let queried = dashboard::metrics();
    assert!(queried.len() >= 50, "{queried:?}");
    for name in &queried {
        assert!(existing.contains(name.as_str()), "{name}: {existing:?}");
    }
}

#[test]
fn excluded_processes_are_not_profiled() {
    let _machine = machine::alone();
    let [included, excluded] = ["seen", "unseen"].map(|name| service("busy", name));
    let pid = excluded.pid();
    let host = Host::start(&format!(
        "exclude: [{{pid: {pid}}}, {{command: unheard-of}}]"
    ));
    wait_for_cpu(&included, SECOND);
    wait_for_cpu(&excluded, SECOND);
    let metrics = host.metrics();
    for (list, unmatched) in [("include", 0.0), ("exclude", 1.0)] {
        let metric = format!("profiling_agent_unmatched_conditions{{list=\"{list}\"}}");
        assert_eq!(metrics.get(&metric), Some(&unmatched), "{metrics:?}");
    }
    let profiles = host.end();
    assert_busy(&profiles["seen"]);
    assert!(!profiles.contains_key("unseen"));
}

#[test]
fn a_profile_of_one_process_can_be_requested() {
    let _machine = machine::alone();
    let [requested, other] = ["asked-for", "other"].map(|name| service("busy", name));
    let host = Host::start("");
    assert_eq!(host.get("/healthz"), b"ok\n");
    for filter in [
        format!("pid={}", requested.pid()),
        "service_name=asked-for".to_owned(),
    ] {
        let path = format!("/debug/pprof/profile?seconds=5&{filter}");
        let profile = pprof::read(&host.get(&path));
        assert_busy(&profile);
        let ids: Vec<_> = profile.threads().iter().map(|thread| thread.id).collect();
        assert_eq!(ids, [requested.pid()], "{filter}");
    }
    let socket = host.folder.path().join(SOCKET);
    let path = "/debug/pprof/profile?seconds=300&service_name=askde-for";
    let (status, body) = request_at_socket(&socket, path);
    let body = String::from_utf8(body).unwrap();
    assert_eq!(status, "404", "{body}");
    assert!(
        body.starts_with("no profiled process has service_name=askde-for: "),
        "{body}"
    );
    drop(other);
}

#[test]
fn other_users_of_the_host_get_no_profiles() {
    let _machine = machine::alone();
    let host = Host::start("");
    let path = "/debug/pprof/profile?seconds=1";
    assert_eq!(request_status_and_body(host.address(), path).0, "403");
    let url = format!("http://localhost{path}");
    let socket = host.folder.path().join(SOCKET);
    // So that only the mode of the socket is in the way.
    fs::set_permissions(host.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let curl = |user: &str| {
        Command::new("setpriv")
            .args(["--reuid", user, "--regid", user, "--clear-groups", "--"])
            .args([
                "curl",
                "--silent",
                "--fail",
                "--output",
                "-",
                "--unix-socket",
            ])
            .args([socket.to_str().unwrap(), &url])
            .output()
            .unwrap()
    };
    let refused = curl("65534");
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(7), 0));
    let granted = curl("0");
    assert!(granted.status.success());
    pprof::read(&granted.stdout);
    host.stop();
}

#[test]
fn a_reloaded_configuration_takes_effect_without_a_gap() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let stolen_before = stolen_time();
    let used_before = cpu_time(&busy);
    let host = Host::start("");
    let used_since = cpu_time(&busy);
    wait_for_cpu(&busy, SECOND);
    let second = TempDir::new().unwrap();
    let file = host.folder.path().join("agent.yaml");
    let is_applied = || host.metrics()["profiling_agent_config_last_reload_successful"] > 0.0;
    assert!(is_applied());
    fs::write(&file, "rate: of course\n").unwrap();
    host.agent.signal(Signal::HUP);
    wait_for_cpu(&busy, SECOND);
    assert!(!is_applied());
    // Of this service alone: others may run on the machine.
    let rule = "relabel_configs: [{source_labels: [service_name], regex: busy, action: keep}, \
                {target_label: service_name, replacement: renamed}]";
    let others = format!("log_level: debug\nevents: wall\n{rule}");
    fs::write(&file, in_folder(second.path(), &others)).unwrap();
    host.agent.signal(Signal::HUP);
    wait_for_cpu(&busy, SECOND * 2);
    assert!(is_applied());
    let least = cpu_time(&busy).saturating_sub(used_since);
    host.agent.signal(Signal::TERM);
    let capture = host.agent.finish();
    let most = cpu_time(&busy).saturating_sub(used_before);
    let stolen = stolen_time().saturating_sub(stolen_before);
    assert!(capture.status.success(), "{}", capture.messages);
    for message in [
        "WARN the configuration is unchanged: ",
        "WARN changes of `events`, ",
        "take effect when the agent is started again",
        "DEBUG a window has ended",
    ] {
        assert!(capture.messages.contains(message), "{}", capture.messages);
    }
    let first = profiles(&host.folder.path().join(PROFILES));
    let second = profiles(second.path());
    assert_busy(&first["busy"]);
    assert_eq!(second.keys().collect::<Vec<_>>(), ["renamed"]);
    assert!(count(&second["renamed"], &["<module>", "main"]) >= RATE / 2);
    let samples = first["busy"].total() + second["renamed"].total();
    let times_run = times_run(&busy);
    assert_sampled(samples, (least, most + stolen), times_run, &"busy");
}

#[test]
fn a_profile_across_a_change_of_the_rate_has_the_cpu_time_that_was_used() {
    let _machine = machine::alone();
    let busy = service("busy", "busy");
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join(SOCKET);
    let file = folder.path().join("agent.yaml");
    let configure = |rate: u32| {
        let others = format!("rate: {rate}\nlisten: 'off'\nsocket: {}", socket.display());
        fs::write(&file, in_folder(&folder.path().join(PROFILES), &others)).unwrap();
    };
    configure(997);
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    command.args(["run", "--config", file.to_str().unwrap()]);
    let mut agent = Running::from_command(command);
    agent.wait_until_sampling();
    let used = || i64::try_from(cpu_time(&busy).as_nanos()).unwrap();
    let before = used();
    let path = format!("/debug/pprof/profile?seconds=6&pid={}", busy.pid());
    let profile = thread::scope(|scope| {
        let request = scope.spawn(|| get_at_socket(&socket, &path));
        wait_for_cpu(&busy, SECOND);
        configure(19);
        agent.signal(Signal::HUP);
        pprof::decode(&request.join().unwrap())
    });
    let used = used() - before;
    let samples = profile.sample.iter();
    let (count, cpu_ns) = samples.fold((0, 0), |(count, cpu_ns), sample| {
        (count + sample.value[0], cpu_ns + sample.value[1])
    });
    assert_eq!(profile.period, 1_000_000_000 / 19);
    // Most of the samples stand for a 997th of a second.
    assert!(count * profile.period > 2 * used, "{count}");
    // The process runs a little longer than it is sampled.
    let share = cpu_ns * 100 / used;
    assert!((80..=102).contains(&share), "{cpu_ns} of {used}");
    agent.signal(Signal::TERM);
    assert!(agent.finish().status.success());
}

#[test]
fn without_arguments_the_host_is_sampled_into_a_folder() {
    let _machine = machine::alone();
    let state = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
    command
        .env("STATE_DIRECTORY", state.path())
        .env("AGENT_LISTEN", "off")
        .env("AGENT_SOCKET", "off")
        .env("AGENT_RATE", RATE.to_string());
    let mut agent = Running::from_command(command);
    agent.wait_until_sampling();
    let busy = service("busy", "busy");
    wait_for_cpu(&busy, SECOND);
    agent.signal(Signal::INT);
    let capture = agent.finish();
    assert!(capture.status.success(), "{}", capture.messages);
    assert_busy(&profiles(&state.path().join("profiles"))["busy"]);
}

#[test]
fn a_killed_agent_leaves_no_bpf_programs_in_the_kernel() {
    let _machine = machine::alone();
    let programs = || {
        let programs = loaded_programs().filter_map(Result::ok);
        let ours = programs.filter(|program| program.name_as_str() == Some("on_cpu"));
        ours.count()
    };
    let before = programs();
    let host = Host::start("");
    assert_eq!(programs(), before + 1);
    host.kill();
    // The kernel frees programs a moment later.
    child::wait_until("the programs are gone", || programs() <= before);
}

#[test]
fn check_config_validates_a_configuration_without_sampling() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("agent.yaml");
    let check_with = |text: &str, (variable, value): (&str, &str)| {
        fs::write(&file, text).unwrap();
        let mut agent = Command::new(env!("CARGO_BIN_EXE_agent"));
        agent.args(["run", "--check-config", "--config", file.to_str().unwrap()]);
        child::without_variables_of_tests(&mut agent).env(variable, value);
        let output = agent.output().unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), messages)
    };
    let check = |text| check_with(text, ("AGENT_SERVICE_HOST", "10.96.0.7"));
    assert_eq!(check("window: 10s\n"), (true, String::new()));
    let (is_valid, messages) = check("widow: 10s\n");
    assert!(!is_valid);
    assert!(messages.contains("(did you mean `window`?)"), "{messages}");
    let (is_valid, messages) = check_with("", ("AGENT_WIDOW", "10s"));
    assert!(is_valid, "{messages}");
    let warning = "agent: the environment variable AGENT_WIDOW configures nothing: did you mean AGENT_WINDOW?\n";
    assert_eq!(messages, warning);
}
