//! The manual page and the completions, as the built agent prints them.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::Command;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};

use crate::paths;
use crate::process::output;

/// Files of completions, by the shell.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "agent.bash"),
    ("fish", "agent.fish"),
    ("zsh", "_agent"),
];

/// Writes them to the folder `documents` beside the agent, where `agent/Cargo.toml` has them.
pub(super) fn make() -> Result<()> {
    let folder = paths::agent_binary().with_file_name("documents");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Without a time, so that the same page is the same file.
    let page = File::create(folder.join("agent.1.gz"))?;
    let mut page = GzBuilder::new().write(page, Compression::best());
    page.write_all(&printed(&["man"])?)?;
    page.finish()?;
    for (shell, file) in COMPLETIONS {
        fs::write(folder.join(file), printed(&["completions", shell])?)?;
    }
    Ok(())
}

fn printed(arguments: &[&str]) -> Result<Vec<u8>> {
    let mut agent = Command::new(paths::agent_binary());
    let output = output(agent.args(arguments))?;
    anyhow::ensure!(output.status.success(), "{agent:?}: {}", output.status);
    Ok(output.stdout)
}
