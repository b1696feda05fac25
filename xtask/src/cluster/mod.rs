//! A Kubernetes cluster without nodes, for tests: an API server and etcd, which authorize requests and
//! store manifests, and run nothing.
//!
//! Invariants: both are the real programs, on the loopback interface, with all files in a directory
//! of their own; they end when the cluster is dropped.

mod programs;

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::{self, succeeds};
use crate::tools::OPENSSL;
use programs::Programs;

/// The token of an administrator.
const ADMINISTRATOR: &str = "administrator";

/// The issuer and audience of the tokens of service accounts.
const ISSUER: &str = "https://kubernetes.default.svc";

/// Makes the programs of a cluster that are missing.
///
/// # Errors
///
/// When one cannot be made.
pub fn ensure_programs() -> Result<()> {
    Programs::ensure().map(|_| ())
}

/// The cluster.
pub struct Cluster {
    programs: Programs,
    directory: PathBuf,
    port: u16,
    etcd: Child,
    api_server: Child,
}

impl Cluster {
    /// Starts one with its files in `directory`, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When a program cannot be found, made or started, or ends.
    pub fn start(directory: &Path) -> Result<Self> {
        let programs = Programs::ensure()?;
        let [clients, peers, port] = free_ports()?;
        let address = |port| format!("http://127.0.0.1:{port}");
        let etcd = with_parent_death_signal(&programs.etcd)
            .arg("--data-dir")
            .arg(directory.join("etcd"))
            .args(["--listen-client-urls", &address(clients)])
            .args(["--advertise-client-urls", &address(clients)])
            .args(["--listen-peer-urls", &address(peers)])
            .arg("--unsafe-no-fsync")
            .stderr(File::create(directory.join("etcd.log"))?)
            .spawn()
            .context("cannot start etcd")?;
        let key = directory.join("accounts.key");
        process::capture(
            OPENSSL
                .command()
                .args(["genrsa", "-out"])
                .arg(&key)
                .arg("2048"),
        )?;
        let tokens = directory.join("tokens.csv");
        let administrator = format!("{ADMINISTRATOR},admin,admin,\"system:masters\"\n");
        fs::write(&tokens, administrator)?;
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let api_server = with_parent_death_signal(&programs.api_server)
            .arg(format!("--etcd-servers={}", address(clients)))
            .args(["--bind-address=127.0.0.1", "--insecure-port=0"])
            .arg(format!("--secure-port={port}"))
            .arg(option("cert-dir", &directory.join("certificates")))
            .arg(option("service-account-key-file", &key))
            .arg(option("service-account-signing-key-file", &key))
            .arg(format!("--service-account-issuer={ISSUER}"))
            .arg(format!("--api-audiences={ISSUER}"))
            .arg(option("token-auth-file", &tokens))
            .args(["--authorization-mode=RBAC", "--allow-privileged"])
            // No controller creates the service accounts of namespaces.
            .arg("--disable-admission-plugins=ServiceAccount")
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            .stderr(File::create(directory.join("api-server.log"))?)
            .spawn()
            .context("cannot start the API server")?;
        let mut cluster = Self {
            programs,
            directory: directory.to_owned(),
            port,
            etcd,
            api_server,
        };
        cluster.wait()?;
        Ok(cluster)
    }

    /// The port of the API server.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The file with the certificate of the API server.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.directory.join("certificates/apiserver.crt")
    }

    /// Runs `kubectl` as an administrator with these arguments and this input, and returns its
    /// output.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = self.command(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        let messages = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "`kubectl {}`: {messages}",
            arguments.join(" ")
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Creates a pod with the status that a kubelet would report: `document` has both. Returns its
    /// UID.
    ///
    /// # Errors
    ///
    /// When the API server rejects it.
    pub fn run_pod(&self, namespace: &str, name: &str, document: &str) -> Result<String> {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        self.kubectl(&["create", "--raw", &pods, "-f", "-"], document)?;
        let status = format!("{pods}/{name}/status");
        self.kubectl(&["replace", "--raw", &status, "-f", "-"], document)?;
        let what = ["get", "pod", name, "-n", namespace, "-o"];
        self.kubectl(&[&what[..], &["jsonpath={.metadata.uid}"]].concat(), "")
    }

    /// Requests a token of a service account, as a kubelet does for a pod.
    ///
    /// # Errors
    ///
    /// When the API server denies it.
    pub fn token(&self, namespace: &str, account: &str) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request =
            r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
        let response = self.kubectl(&["create", "--raw", &path, "-f", "-"], request)?;
        let token = response
            .split_once("\"token\":\"")
            .context("the response has no token")?;
        let (token, _) = token.1.split_once('"').context("the token is truncated")?;
        Ok(token.to_owned())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.programs.kubectl);
        command
            .args(["--server", &format!("https://127.0.0.1:{}", self.port)])
            .args(["--token", ADMINISTRATOR, "--certificate-authority"])
            .arg(self.ca_file())
            .arg("--cache-dir")
            .arg(self.directory.join("cache"))
            .env("HOME", &self.directory)
            .args(arguments);
        command
    }

    fn wait(&mut self) -> Result<()> {
        while !succeeds(&mut self.command(&["get", "--raw", "/readyz"])) {
            for (name, child) in [
                ("etcd", &mut self.etcd),
                ("api-server", &mut self.api_server),
            ] {
                if let Some(status) = child.try_wait()? {
                    let log = self.directory.join(format!("{name}.log"));
                    let log = fs::read_to_string(log)?;
                    bail!("{name} ended with {status}: {log}");
                }
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in [&mut self.api_server, &mut self.etcd] {
            // An error means that it has already ended.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// A command for a program that ends with this process.
fn with_parent_death_signal(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Ports on which nothing listens.
fn free_ports() -> Result<[u16; 3]> {
    let listen = || TcpListener::bind("127.0.0.1:0");
    let listeners = [listen()?, listen()?, listen()?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
