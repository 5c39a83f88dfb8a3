//! Arguments of `yb config`.

use clap::Subcommand;

use super::examples;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write a `.youbencharc` in which every key is explained and none is set
    #[command(after_long_help = examples::CONFIG_INIT)]
    Init(ConfigInitArgs),

    /// Show every setting that holds, and where each came from
    ///
    /// A later one wins: default, the file in the home directory, the file in the working directory, the case (in `yb run`), a
    /// variable of the environment, an argument.
    #[command(after_long_help = examples::CONFIG_LIST)]
    List(ConfigListArgs),

    /// Print the value that holds for a key
    ///
    /// Exits with 1 when the key is known and has no value.
    #[command(after_long_help = examples::CONFIG_GET)]
    Get(ConfigGetArgs),

    /// Set a key in the file; its comments and its order stay
    #[command(after_long_help = examples::CONFIG_SET)]
    Set(ConfigSetArgs),

    /// Remove a key from the file
    ///
    /// Exits with 1 when the file does not have it.
    #[command(after_long_help = examples::CONFIG_UNSET)]
    Unset(ConfigUnsetArgs),
}

/// Which file.
#[derive(Debug, clap::Args)]
pub(crate) struct Scope {
    /// The file in the home directory, instead of the working directory's
    #[arg(long)]
    pub(crate) global: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigInitArgs {
    #[command(flatten)]
    pub(crate) scope: Scope,

    /// Replace the file if it is there
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigListArgs {
    /// Only what the file in the home directory says
    #[arg(long)]
    pub(crate) global: bool,

    /// Print a JSON array with key, value, source and where exactly
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigGetArgs {
    /// The key, such as `agent.model`; a group such as `agent` gives all below it
    pub(crate) key: String,

    /// Only what the file in the home directory says
    #[arg(long)]
    pub(crate) global: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigSetArgs {
    /// The key, such as `agent.model` or `variables.NAME`
    pub(crate) key: String,

    /// The value
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: String,

    #[command(flatten)]
    pub(crate) scope: Scope,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigUnsetArgs {
    /// The key
    pub(crate) key: String,

    #[command(flatten)]
    pub(crate) scope: Scope,
}
