//! Arguments of `yb list`, `yb doctor` and `yb verify`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Kind to list [default: agents and evaluators]
    #[arg(value_enum)]
    pub(crate) what: Option<ListKind>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ListKind {
    /// Agents with availability and version
    Agents,
    /// Evaluators
    Evaluators,
    /// Runs of this project, newest last
    Runs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Run [default: latest]
    pub(crate) run: Option<String>,

    /// Sign an intact run with this private key: Ed25519, in OpenSSH format, without a passphrase
    #[arg(long, value_name = "KEY")]
    pub(crate) sign: Option<PathBuf>,

    /// Check the signature of the run with this public key
    #[arg(long, value_name = "PUBKEY")]
    pub(crate) verify_with: Option<PathBuf>,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
