//! Arguments of `yb config`.

use clap::Subcommand;

use super::examples;

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ConfigCommand {
    /// Write a `.youbencharc` with every key documented and commented out
    #[command(after_long_help = examples::CONFIG_INIT)]
    Init(ConfigInitArgs),

    /// List the effective settings and their sources
    ///
    /// Precedence, lowest first: default, file in the home directory, file in the working directory, case (in `yb run`), environment
    /// variable, argument.
    #[command(after_long_help = examples::CONFIG_LIST)]
    List(ConfigListArgs),

    /// Print the effective value of a key
    ///
    /// Exits with 1 if the key has no value.
    #[command(after_long_help = examples::CONFIG_GET)]
    Get(ConfigGetArgs),

    /// Set a key in the file, keeping comments and order
    #[command(after_long_help = examples::CONFIG_SET)]
    Set(ConfigSetArgs),

    /// Remove a key from the file
    ///
    /// Exits with 1 if the file does not have it.
    #[command(after_long_help = examples::CONFIG_UNSET)]
    Unset(ConfigUnsetArgs),
}

// Selects the settings file. No doc comment: it would replace the description of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Scope {
    /// Use the file in the home directory
    #[arg(long)]
    pub(crate) global: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigInitArgs {
    #[command(flatten)]
    pub(crate) scope: Scope,

    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigListArgs {
    /// Only the file in the home directory
    #[arg(long)]
    pub(crate) global: bool,

    /// Print a JSON array with key, value, source and location
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigGetArgs {
    /// Key such as `agent.model`, or section such as `agent`
    pub(crate) key: String,

    /// Only the file in the home directory
    #[arg(long)]
    pub(crate) global: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigSetArgs {
    /// Key such as `agent.model` or `variables.NAME`
    pub(crate) key: String,

    /// Value
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: String,

    #[command(flatten)]
    pub(crate) scope: Scope,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigUnsetArgs {
    /// Key
    pub(crate) key: String,

    #[command(flatten)]
    pub(crate) scope: Scope,
}
