//! The host.

/// The host that the agent runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its architecture, as OpenTelemetry names it.
    pub architecture: &'static str,
    /// Its Kubernetes node, if configured.
    pub node: Option<String>,
}

impl Host {
    /// This host; `node` is its Kubernetes node.
    #[must_use]
    pub fn here(node: Option<String>) -> Self {
        let system = rustix::system::uname();
        Self {
            name: system.nodename().to_string_lossy().into_owned(),
            architecture: match std::env::consts::ARCH {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                other => other,
            },
            node: node.filter(|node| !node.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Host;

    #[test]
    fn this_machine_has_a_name() {
        let host = Host::here(Some(String::new()));
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(host.name, name.trim_end());
        assert_eq!(host.node, None);
    }
}
