//! Arguments of `yb init`, `import`, `install-agents`, `completions`, `man` and `self`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Overwrite existing files
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// Plugin, skill, or file of the other tool
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,

    /// Directory for the files [default: the name of the suite]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Agent type of the cases [default: claude-code]
    #[arg(long, value_name = "TYPE")]
    pub(crate) agent: Option<String>,

    /// Model of the cases [default: that of the suite]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Score from which a trial passes, from 0 to 1
    #[arg(long, value_name = "SCORE", default_value = "1", value_parser = share)]
    pub(crate) threshold: f64,

    /// Overwrite existing files
    #[arg(long)]
    pub(crate) force: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

#[derive(Debug, clap::Args)]
pub(crate) struct InstallAgentsArgs {
    /// Install an agent CLI with npm, such as `codex@0.166.0`; repeatable
    ///
    /// Without a version, the newest that this version of `yb` was tested with. Installs to `$YB_TOOLS_DIR`, or `youbencha/tools` below `$XDG_DATA_HOME` or `~/.local/share`, next to other versions. A case or
    /// variant selects it with `version:`. The judge definition is not written.
    #[arg(long, value_name = "NAME[@VERSION]")]
    pub(crate) cli: Vec<String>,

    /// Overwrite existing files
    #[arg(long, conflicts_with = "cli")]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write a page per command to this directory [default: print the page of `yb`]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum SelfCommand {
    /// Show path, version, package manager and the command that updates this program
    ///
    /// Also lists other programs `yb` on PATH. Looks at files only: runs no package manager and downloads nothing.
    #[command(after_long_help = super::examples::SELF_DOCTOR)]
    Doctor(SelfDoctorArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SelfDoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
