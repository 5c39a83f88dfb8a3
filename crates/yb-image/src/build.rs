//! Builds images from Dockerfiles without a daemon: each RUN is a sandboxed process in an overlay of the root so far, whose
//! changes are then moved into it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use yb_supervise::{
    CancellationToken, Command, Launch, Network, OutputMode, OverlayMount, RootMount, Sandbox, is_opaque_dir,
    is_whiteout,
};

use crate::context::BuildContext;
use crate::dockerfile::{self, Instruction, error, flags, list, words};
use crate::unpack::{apply_layer, digest_of, inside};
use crate::{Image, ImageConfig, ImageError, ImageStore, find_user};

const BEYOND: &str = "build the image with `docker` or `buildah`, and name it as `environment.image`";
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Instructions without an effect on the files or the processes of a trial.
const WITHOUT_EFFECT: [&str; 9] =
    ["EXPOSE", "LABEL", "CMD", "ENTRYPOINT", "VOLUME", "STOPSIGNAL", "HEALTHCHECK", "MAINTAINER", "ONBUILD"];

/// Options of a build.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BuildOptions {
    /// The timeout of each RUN; zero means no limit.
    pub timeout: Duration,
    /// The shim that supervises every child; the running program if `None`.
    pub shim: Option<PathBuf>,
    /// Cancels the build.
    pub cancel: CancellationToken,
    /// Whether RUN can reach the network.
    pub network: bool,
}

impl Default for BuildOptions {
    fn default() -> Self {
        let timeout = Duration::from_secs(600);
        Self { timeout, shim: None, cancel: CancellationToken::new(), network: true }
    }
}

/// A stage of a build.
struct Stage {
    name: String,
    root: PathBuf,
    config: ImageConfig,
    args: BTreeMap<String, String>,
    shell: Vec<String>,
}

impl ImageStore {
    /// Builds the Dockerfile of a directory, unless the same files were built before.
    ///
    /// # Errors
    /// When a file can't be read, an instruction is not supported, or a command fails.
    pub async fn build(&self, directory: &Path, options: &BuildOptions) -> Result<Image, ImageError> {
        let file = directory.join("Dockerfile");
        let text = fs::read_to_string(&file).map_err(ImageError::io(&file))?;
        let instructions = dockerfile::parse(&text)?;
        let context = BuildContext::read(directory)?;
        // Base images are part of the digest: a tag may move.
        let mut bases = BTreeMap::new();
        let mut key = Sha256::new_with_prefix(format!("build 1 {} {text}", options.network));
        key.update(context.digest()?);
        let mut args = BTreeMap::new();
        let mut stages = Vec::new();
        for one in &instructions {
            match one.name.as_str() {
                "ARG" if stages.is_empty() => args.extend(arguments(one, &args)),
                "FROM" => {
                    let (base, name) = from(one, &args)?;
                    if !stages.contains(&base) && base != "scratch" && !bases.contains_key(&base) {
                        let image = self.image(&base).await?;
                        key.update(image.rootfs.as_os_str().as_encoded_bytes());
                        bases.insert(base, image);
                    }
                    stages.push(name);
                }
                _ => {}
            }
        }
        let target = self.directory().join("builds").join(digest_of(key).replace(':', "-"));
        if let Some(image) = Image::stored(&target)? {
            return Ok(image);
        }
        let partial = target.with_extension(format!("partial-{}", std::process::id()));
        remove_all(&partial);
        fs::create_dir_all(&partial).map_err(ImageError::io(&partial))?;
        let build = Build { partial: partial.clone(), context, bases, global: args, options };
        let built = build.run(&instructions).await;
        let stored = built.and_then(|stage| {
            let root = partial.join("rootfs");
            fs::rename(&stage.root, &root).map_err(ImageError::io(&root))?;
            stage.config.store(&partial)?;
            for entry in fs::read_dir(&partial).map_err(ImageError::io(&partial))?.flatten() {
                if entry.file_name() != "rootfs" && entry.file_name() != "config.json" {
                    remove_all(&entry.path());
                }
            }
            remove_all(&target);
            fs::rename(&partial, &target).map_err(ImageError::io(&target))
        });
        if let Err(failed) = stored {
            remove_all(&partial);
            return Err(failed);
        }
        let missing = || ImageError::io(&target)(io::ErrorKind::NotFound.into());
        Image::stored(&target)?.ok_or_else(missing)
    }
}

fn from(one: &Instruction, args: &BTreeMap<String, String>) -> Result<(String, String), ImageError> {
    let (_, rest) = flags(&one.rest);
    let found = words(rest, args);
    let base = found.first().cloned().ok_or_else(|| error(one.line, "FROM without an image", "name one"))?;
    let name = match found.get(1) {
        Some(word) if word.eq_ignore_ascii_case("as") => found.get(2).cloned().unwrap_or_default(),
        _ => String::new(),
    };
    Ok((base, name))
}

fn arguments(one: &Instruction, known: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let all = words(&one.rest, known);
    all.iter()
        .map(|word| match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (word.clone(), known.get(word).cloned().unwrap_or_default()),
        })
        .collect()
}

struct Build<'a> {
    partial: PathBuf,
    context: BuildContext,
    bases: BTreeMap<String, Image>,
    /// The arguments before the first stage.
    global: BTreeMap<String, String>,
    options: &'a BuildOptions,
}

impl Build<'_> {
    async fn run(&self, instructions: &[Instruction]) -> Result<Stage, ImageError> {
        let mut stages: Vec<Stage> = Vec::new();
        for one in instructions {
            if one.name == "FROM" {
                let stage = self.start(one, &stages)?;
                stages.push(stage);
                continue;
            }
            if stages.is_empty() {
                if one.name == "ARG" {
                    continue;
                }
                return Err(error(one.line, format!("`{}` before FROM", one.name), "start with FROM"));
            }
            if let Some((stage, before)) = stages.split_last_mut() {
                self.apply(one, stage, before).await?;
            }
        }
        stages.pop().ok_or_else(|| error(1, "no FROM", "name a base image"))
    }

    fn start(&self, one: &Instruction, stages: &[Stage]) -> Result<Stage, ImageError> {
        let (base, name) = from(one, &self.global)?;
        let root = self.partial.join(format!("stage-{}", stages.len()));
        fs::create_dir_all(&root).map_err(ImageError::io(&root))?;
        let earlier = stages.iter().find(|stage| stage.name == base && !base.is_empty());
        let (source, config) = match earlier {
            Some(stage) => (Some(stage.root.clone()), stage.config.clone()),
            None => match self.bases.get(&base) {
                Some(image) => (Some(image.rootfs.clone()), image.config.clone()),
                None => (None, ImageConfig::default()),
            },
        };
        if let Some(source) = source {
            link_tree(&source, &root).map_err(ImageError::io(&source))?;
        }
        allow_apt(&root).map_err(ImageError::io(&root))?;
        let shell = ["/bin/sh", "-c"].map(str::to_owned).into();
        Ok(Stage { name, root, config, args: BTreeMap::new(), shell })
    }

    async fn apply(&self, one: &Instruction, stage: &mut Stage, before: &[Stage]) -> Result<(), ImageError> {
        let known = stage.variables();
        match one.name.as_str() {
            "RUN" => self.run_command(one, stage).await,
            "COPY" | "ADD" => self.copy(one, stage, before),
            "ENV" => {
                let all = words(&one.rest, &known);
                let old_form = all.first().is_some_and(|word| !word.contains('='));
                let pairs: Vec<(String, String)> = if old_form {
                    vec![(all[0].clone(), all[1..].join(" "))]
                } else {
                    let split =
                        |word: &String| word.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
                    all.iter().filter_map(split).collect()
                };
                for (name, value) in pairs {
                    stage.config.env.retain(|(known, _)| *known != name);
                    stage.config.env.push((name, value));
                }
                Ok(())
            }
            "ARG" => {
                let mut known = known;
                known.extend(self.global.clone());
                stage.args.extend(arguments(one, &known));
                Ok(())
            }
            "WORKDIR" => {
                let path = words(&one.rest, &known).join(" ");
                let path = absolute(&stage.config.workdir, &path);
                inside(&stage.root, path.strip_prefix("/").unwrap_or(&path), true)
                    .map_err(ImageError::io(&path))?;
                stage.config.workdir = path.to_string_lossy().into_owned();
                Ok(())
            }
            "USER" => {
                stage.config.user = words(&one.rest, &known).join(" ");
                Ok(())
            }
            "SHELL" => {
                stage.shell = list(&one.rest).filter(|shell| !shell.is_empty()).ok_or_else(|| {
                    error(one.line, "SHELL is not a list", "write `SHELL [\"/bin/bash\", \"-c\"]`")
                })?;
                Ok(())
            }
            name if WITHOUT_EFFECT.contains(&name) => Ok(()),
            name => Err(error(one.line, format!("instruction not supported: `{name}`"), BEYOND)),
        }
    }

    /// Runs a command in an overlay of the root, and moves its changes into the root.
    async fn run_command(&self, one: &Instruction, stage: &Stage) -> Result<(), ImageError> {
        let (given, rest) = flags(&one.rest);
        if let Some((flag, _)) = given.first() {
            return Err(error(one.line, format!("`RUN --{flag}` is not supported"), BEYOND));
        }
        let argv = match (list(rest), one.documents.as_slice()) {
            (Some(argv), _) => argv,
            (None, []) => stage.shell.iter().cloned().chain([rest.to_owned()]).collect(),
            (None, [document]) if rest.starts_with("<<") => {
                stage.shell.iter().cloned().chain([document.content.clone()]).collect()
            }
            (None, documents) => {
                // The shell reads the documents itself.
                let mut script = format!("{rest}\n");
                for document in documents {
                    script.push_str(&format!("{}{}\n", document.content, document.name));
                }
                stage.shell.iter().cloned().chain([script]).collect()
            }
        };
        let layer = self.partial.join(format!("layer-{}", one.line));
        let [upper, work, target] = ["upper", "work", "root"].map(|name| layer.join(name));
        for directory in [&upper, &work, &target] {
            fs::create_dir_all(directory).map_err(ImageError::io(directory))?;
        }
        let mode = fs::metadata(&stage.root).map_err(ImageError::io(&stage.root))?.permissions();
        fs::set_permissions(&upper, mode).map_err(ImageError::io(&upper))?;
        let user = find_user(&stage.root, &stage.config.user)?;
        let mount =
            RootMount::new(OverlayMount::new(&stage.root, &upper, &work, &target)).user(user.uid, user.gid);
        let network = if self.options.network { Network::Shared } else { Network::None };
        let workdir = if stage.config.workdir.is_empty() { "/" } else { &stage.config.workdir };
        let (program, args) =
            argv.split_first().ok_or_else(|| error(one.line, "empty RUN", "name a command"))?;
        let mut command = Command::new(program)
            .args(args)
            .current_dir(workdir)
            .launch(Launch::Contained)
            .output(OutputMode::Capture { limit: 1 << 20 })
            .deadline(self.options.timeout)
            .cancel_on(self.options.cancel.clone())
            .env("PATH", DEFAULT_PATH)
            .env("HOME", &user.home)
            .envs(stage.variables())
            .sandbox(Sandbox::new().root(mount).network(network));
        if let Some(shim) = &self.options.shim {
            command = command.shim(shim);
        }
        let report = command.run().await;
        if !report.success() {
            let output = report.output.captured().map(|output| output.text().text.trim().to_owned());
            let output = output.unwrap_or_default();
            let from = output.char_indices().rev().nth(1000).map_or(0, |(at, _)| at);
            let reason = format!(
                "`{}`: {}\n{}",
                one.rest.lines().next().unwrap_or_default(),
                report.end,
                &output[from..]
            );
            return Err(error(
                one.line,
                reason,
                "correct the command, or run it with `docker build` to compare",
            ));
        }
        let (root, from) = (stage.root.clone(), upper);
        merge(&from, &root).map_err(ImageError::io(&root))?;
        remove_all(&layer);
        Ok(())
    }

    fn copy(&self, one: &Instruction, stage: &Stage, before: &[Stage]) -> Result<(), ImageError> {
        let (given, rest) = flags(&one.rest);
        let (mut source, mut mode) = (None, None);
        for (flag, value) in given {
            match flag {
                "from" => {
                    let by_name = before.iter().find(|stage| stage.name == value && !value.is_empty());
                    let by_number = value.parse::<usize>().ok().and_then(|number| before.get(number));
                    source = Some(by_name.or(by_number).ok_or_else(|| {
                        error(one.line, format!("no such stage: `{value}`"), "name an earlier stage")
                    })?);
                }
                "chmod" => mode = u32::from_str_radix(value, 8).ok(),
                // The root has a single owner.
                "chown" | "link" => {}
                _ => {
                    return Err(error(one.line, format!("`{} --{flag}` is not supported", one.name), BEYOND));
                }
            }
        }
        let mut paths = list(rest).unwrap_or_else(|| words(rest, &stage.variables()));
        let to = paths.pop().filter(|_| !paths.is_empty());
        let to = to.ok_or_else(|| error(one.line, "no source or no target", "write `COPY SOURCE TARGET`"))?;
        let is_dir = to.ends_with('/') || to.ends_with("/.") || to == "." || paths.len() > 1;
        let target = absolute(&stage.config.workdir, &to);
        let relative = target.strip_prefix("/").unwrap_or(&target).to_owned();
        for path in &paths {
            if let Some(document) = one
                .documents
                .iter()
                .find(|document| path.contains(document.name.as_str()) && path.starts_with("<<"))
            {
                let content = if document.expanded {
                    expand_text(&document.content, &stage.variables())
                } else {
                    document.content.clone()
                };
                let to = if is_dir { relative.join(&document.name) } else { relative.clone() };
                write_file(&stage.root, &to, content.as_bytes(), mode.unwrap_or(0o644))
                    .map_err(ImageError::io(&target))?;
                continue;
            }
            if path.contains("://") {
                return Err(error(
                    one.line,
                    "ADD of a URL is not supported",
                    "use `RUN curl`, or add the file to the context",
                ));
            }
            let found = match source {
                Some(stage) => crate::context::find_in(&stage.root, path),
                None => self.context.find(path),
            };
            let found = found.map_err(ImageError::io(path))?;
            if found.is_empty() {
                return Err(error(
                    one.line,
                    format!("no such file in the context: `{path}`"),
                    "check the path and .dockerignore",
                ));
            }
            let is_dir = is_dir || found.len() > 1;
            for file in found {
                self.copy_one(one, &file, source.is_none(), stage, &relative, is_dir, mode)?;
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one call site")]
    fn copy_one(
        &self,
        one: &Instruction,
        file: &Path,
        of_context: bool,
        stage: &Stage,
        relative: &Path,
        is_dir: bool,
        mode: Option<u32>,
    ) -> Result<(), ImageError> {
        let io_error = |source| ImageError::Io { path: file.to_owned(), source };
        let name = file.file_name().unwrap_or_default();
        if file.is_dir() {
            let skip = |path: &Path| of_context && self.context.is_ignored(path);
            return copy_dir(file, &stage.root, relative, mode, &skip).map_err(io_error);
        }
        let is_archive =
            [".tar", ".tar.gz", ".tgz", ".tar.zst"].iter().any(|end| name.to_string_lossy().ends_with(end));
        if one.name == "ADD" && of_context && is_archive {
            let to = inside(&stage.root, relative, true).map_err(io_error)?;
            return apply_layer(file, &to, None);
        }
        let exists_as_dir = inside(&stage.root, relative, false).is_ok_and(|path| path.is_dir());
        let to = if is_dir || exists_as_dir { relative.join(name) } else { relative.to_owned() };
        let mode = mode.unwrap_or_else(|| file_mode(file));
        let content = fs::read(file).map_err(io_error)?;
        write_file(&stage.root, &to, &content, mode).map_err(io_error)
    }
}

impl Stage {
    /// Returns the variables of commands. Those of ENV take precedence over those of ARG.
    fn variables(&self) -> BTreeMap<String, String> {
        let mut all = self.args.clone();
        all.extend(self.config.env.iter().cloned());
        all
    }
}

/// Expands variables in a text, and keeps everything else.
fn expand_text(text: &str, variables: &BTreeMap<String, String>) -> String {
    let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    words(&quoted, variables).concat()
}

fn absolute(workdir: &str, path: &str) -> PathBuf {
    let mut all = PathBuf::from("/");
    for part in Path::new("/").join(workdir).join(path).components() {
        match part {
            Component::Normal(name) => all.push(name),
            Component::ParentDir => drop(all.pop()),
            _ => {}
        }
    }
    all
}

/// Lets apt work with a single user: it would change to a user that does not exist in the namespace.
fn allow_apt(root: &Path) -> io::Result<()> {
    let folder = root.join("etc/apt/apt.conf.d");
    if folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        write_file(root, Path::new("etc/apt/apt.conf.d/00youbencha"), crate::APT_SETTINGS.as_bytes(), 0o644)?;
    }
    Ok(())
}

/// Writes a file below a root, never through a link and never into an existing file, which may be a hard link to a base image.
fn write_file(root: &Path, relative: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let parent = inside(root, relative.parent().unwrap_or(Path::new("")), true)?;
    let path = parent.join(relative.file_name().unwrap_or_default());
    remove_entry(&path)?;
    fs::write(&path, content)?;
    set_mode(&path, mode)
}

fn copy_dir(
    from: &Path,
    root: &Path,
    relative: &Path,
    mode: Option<u32>,
    skip: &dyn Fn(&Path) -> bool,
) -> io::Result<()> {
    let to = inside(root, relative, true)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, name) = (entry.path(), entry.file_name());
        if skip(&source) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_dir(&source, root, &relative.join(&name), mode, skip)?;
        } else if kind.is_symlink() {
            remove_entry(&to.join(&name))?;
            #[cfg(unix)]
            std::os::unix::fs::symlink(fs::read_link(&source)?, to.join(&name))?;
        } else if kind.is_file() {
            let mode = mode.unwrap_or_else(|| file_mode(&source));
            write_file(root, &relative.join(&name), &fs::read(&source)?, mode)?;
        }
    }
    Ok(())
}

/// Copies a tree with hard links. Nothing writes to an existing file of it.
fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            fs::create_dir(&target)?;
            link_tree(&source, &target)?;
            fs::set_permissions(&target, fs::metadata(&source)?.permissions())?;
        } else if kind.is_symlink() {
            #[cfg(unix)]
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            fs::hard_link(&source, &target)?;
        }
    }
    Ok(())
}

/// Moves an upper layer into a root.
fn merge(upper: &Path, root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(upper)? {
        let entry = entry?;
        let (source, target) = (entry.path(), root.join(entry.file_name()));
        let found = entry.metadata()?;
        let is_merged = found.is_dir()
            && !is_opaque_dir(&source)
            && fs::symlink_metadata(&target).is_ok_and(|below| below.is_dir());
        if !is_merged {
            remove_entry(&target)?;
        }
        if is_whiteout(&found) {
            continue;
        }
        if found.is_dir() {
            if !is_merged {
                fs::create_dir(&target)?;
            }
            set_mode(&target, 0o700)?;
            set_mode(&source, 0o700)?;
            merge(&source, &target)?;
            fs::set_permissions(&target, found.permissions())?;
        } else {
            fs::rename(&source, &target)?;
        }
    }
    Ok(())
}

fn remove_entry(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Removes a directory with what the kernel left in it, as far as possible.
fn remove_all(path: &Path) {
    fn open_up(path: &Path) {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = set_mode(&entry.path(), 0o700);
                open_up(&entry.path());
            }
        }
    }
    if fs::remove_dir_all(path).is_err() {
        open_up(path);
        let _ = fs::remove_dir_all(path);
    }
}

fn file_mode(path: &Path) -> u32 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(path).map_or(0o644, |found| found.permissions().mode() & 0o777)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        0o644
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    #[cfg(not(unix))]
    let _ = (path, mode);
    Ok(())
}
