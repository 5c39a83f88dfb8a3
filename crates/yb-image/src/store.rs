//! The cache of images: blobs by digest, and one unpacked root per image.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use yb_net::policy::HostPolicy;

use crate::reference::{Reference, is_digest};
use crate::registry::{MAX_MANIFEST, Registry};
use crate::unpack::{apply_layer, digest_of, unpack};
use crate::{Image, ImageConfig, ImageError};

/// The root and the configuration in the directory of an image.
const ROOTFS: &str = "rootfs";
const CONFIG: &str = "config.json";

/// A cache of images.
#[derive(Debug, Clone)]
pub struct ImageStore {
    directory: PathBuf,
    hosts: HostPolicy,
}

/// What an image consists of.
struct Parts {
    /// The digest of the configuration, which names all layers.
    id: String,
    config: Vec<u8>,
    layers: Vec<PathBuf>,
}

impl ImageStore {
    /// Opens the cache in a directory.
    #[must_use]
    pub fn new(directory: &Path, hosts: HostPolicy) -> Self {
        Self { directory: directory.to_owned(), hosts }
    }

    /// Returns an image: `registry/name:tag`, `registry/name@sha256:…`, `oci:DIR` or `docker-archive:FILE`.
    ///
    /// # Errors
    /// When it does not exist, can't be fetched, or differs from its digest.
    pub async fn image(&self, name: &str) -> Result<Image, ImageError> {
        let parts = if let Some(directory) = name.strip_prefix("oci:") {
            layout_parts(Path::new(directory))?
        } else if let Some(file) = name.strip_prefix("docker-archive:") {
            let (store, file) = (self.clone(), PathBuf::from(file));
            blocking(move || store.archive_parts(&file)).await?
        } else {
            self.pull(&Reference::parse(name)?).await?
        };
        let store = self.clone();
        blocking(move || store.unpacked(&parts)).await
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn blob_path(&self, digest: &str) -> Result<PathBuf, ImageError> {
        let hex = digest.strip_prefix("sha256:").filter(|_| is_digest(digest));
        let hex =
            hex.ok_or_else(|| ImageError::Manifest { reason: format!("invalid digest: {digest:?}") })?;
        Ok(self.directory.join("blobs").join("sha256").join(hex))
    }

    async fn pull(&self, reference: &Reference) -> Result<Parts, ImageError> {
        let blobs = self.directory.join("blobs/sha256");
        fs::create_dir_all(&blobs).map_err(ImageError::io(&blobs))?;
        let mut registry = Registry::new(reference, self.hosts)?;
        let mut manifest = match is_digest(&reference.version) {
            true => match fs::read(self.blob_path(&reference.version)?) {
                Ok(known) => known,
                Err(_) => self.fetch_manifest(&mut registry, &reference.version).await?,
            },
            false => self.fetch_manifest(&mut registry, &reference.version).await?,
        };
        if let Some(digest) = platform_manifest(&parse(&manifest)?)? {
            manifest = match fs::read(self.blob_path(&digest)?) {
                Ok(known) => known,
                Err(_) => self.fetch_manifest(&mut registry, &digest).await?,
            };
        }
        let manifest = parse(&manifest)?;
        let (id, layers) = contents(&manifest)?;
        for digest in [&id].into_iter().chain(&layers) {
            let path = self.blob_path(digest)?;
            if !path.is_file() {
                let partial = path.with_extension(format!("partial-{}", std::process::id()));
                registry.blob(digest, &partial).await?;
                fs::rename(&partial, &path).map_err(ImageError::io(&path))?;
            }
        }
        let config = self.blob_path(&id)?;
        let config = fs::read(&config).map_err(ImageError::io(&config))?;
        let layers = layers.iter().map(|digest| self.blob_path(digest)).collect::<Result<_, _>>()?;
        Ok(Parts { id, config, layers })
    }

    async fn fetch_manifest(
        &self,
        registry: &mut Registry<'_>,
        version: &str,
    ) -> Result<Vec<u8>, ImageError> {
        let (bytes, digest) = registry.manifest(version).await?;
        let path = self.blob_path(&digest)?;
        fs::write(&path, &bytes).map_err(ImageError::io(&path))?;
        Ok(bytes)
    }

    /// Reads the output of `docker save`.
    fn archive_parts(&self, file: &Path) -> Result<Parts, ImageError> {
        let bytes = fs::metadata(file).map_err(ImageError::io(file))?;
        let changed = bytes.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let key = format!("{} {} {changed:?}", file.display(), bytes.len());
        let name = digest_of(Sha256::new_with_prefix(key)).replace(':', "-");
        let directory = self.directory.join("archives").join(name);
        if !directory.join("manifest.json").is_file() {
            let partial = directory.with_extension(format!("partial-{}", std::process::id()));
            fs::create_dir_all(&partial).map_err(ImageError::io(&partial))?;
            let mut opened = fs::File::open(file).map_err(ImageError::io(file))?;
            unpack(&mut opened, &partial).map_err(ImageError::io(file))?;
            let _ = fs::remove_dir_all(&directory);
            fs::rename(&partial, &directory).map_err(ImageError::io(&directory))?;
        }
        let path = directory.join("manifest.json");
        let manifest = parse(&fs::read(&path).map_err(ImageError::io(&path))?)?;
        let invalid = || ImageError::Manifest { reason: "not the output of `docker save`".to_owned() };
        let inside = |value: &Value| {
            let relative = Path::new(value.as_str().ok_or_else(invalid)?);
            crate::unpack::inside(&directory, relative, false).map_err(ImageError::io(relative))
        };
        let path = inside(&manifest[0]["Config"])?;
        let config = fs::read(&path).map_err(ImageError::io(&path))?;
        let layers = manifest[0]["Layers"].as_array().ok_or_else(invalid)?;
        let layers = layers.iter().map(inside).collect::<Result<_, _>>()?;
        Ok(Parts { id: digest_of(Sha256::new_with_prefix(&config)), config, layers })
    }

    /// Unpacks an image, unless that was done before.
    fn unpacked(&self, parts: &Parts) -> Result<Image, ImageError> {
        let name = parts.id.replace(':', "-");
        let directory = self.directory.join("roots").join(name);
        if !directory.join(CONFIG).is_file() {
            let partial = directory.with_extension(format!("partial-{}", std::process::id()));
            let _ = fs::remove_dir_all(&partial);
            let root = partial.join(ROOTFS);
            fs::create_dir_all(&root).map_err(ImageError::io(&root))?;
            let config = parse(&parts.config)?;
            let diff_ids: Vec<&str> = config["rootfs"]["diff_ids"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            if diff_ids.len() != parts.layers.len() {
                let reason = "the configuration names another number of layers".to_owned();
                return Err(ImageError::Manifest { reason });
            }
            for (layer, diff_id) in parts.layers.iter().zip(diff_ids) {
                apply_layer(layer, &root, Some(diff_id))?;
            }
            fs::write(partial.join(CONFIG), &parts.config).map_err(ImageError::io(&partial))?;
            // Another process may have been faster.
            if fs::rename(&partial, &directory).is_err() {
                let _ = fs::remove_dir_all(&partial);
            }
        }
        let missing = || ImageError::io(&directory)(std::io::ErrorKind::NotFound.into());
        Image::stored(&directory)?.ok_or_else(missing)
    }
}

impl Image {
    /// Returns the image in a directory of the cache, if it is complete.
    pub(crate) fn stored(directory: &Path) -> Result<Option<Self>, ImageError> {
        let config = directory.join(CONFIG);
        if !config.is_file() {
            return Ok(None);
        }
        let config = parse(&fs::read(&config).map_err(ImageError::io(&config))?)?;
        Ok(Some(Self { rootfs: directory.join(ROOTFS), config: ImageConfig::of(&config) }))
    }
}

impl ImageConfig {
    /// Writes the configuration to a directory, as that of an image.
    pub(crate) fn store(&self, directory: &Path) -> Result<(), ImageError> {
        let env: Vec<String> = self.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let config = serde_json::json!({
            "config": { "Env": env, "WorkingDir": self.workdir, "User": self.user }
        });
        let path = directory.join(CONFIG);
        fs::write(&path, config.to_string()).map_err(ImageError::io(&path))
    }

    fn of(config: &Value) -> Self {
        let config = &config["config"];
        let text = |key: &str| config[key].as_str().unwrap_or_default().to_owned();
        let env = config["Env"].as_array().into_iter().flatten().filter_map(|entry| {
            let (name, value) = entry.as_str()?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Self { env: env.collect(), workdir: text("WorkingDir"), user: text("User") }
    }
}

/// Reads a directory in the layout of OCI. Digests are verified.
fn layout_parts(directory: &Path) -> Result<Parts, ImageError> {
    let blob = |digest: &str| {
        let hex = digest.strip_prefix("sha256:").filter(|_| is_digest(digest));
        let hex =
            hex.ok_or_else(|| ImageError::Manifest { reason: format!("invalid digest: {digest:?}") })?;
        Ok(directory.join("blobs/sha256").join(hex))
    };
    let read = |digest: &str| {
        let path = blob(digest)?;
        let bytes = fs::read(&path).map_err(ImageError::io(&path))?;
        let found = digest_of(Sha256::new_with_prefix(&bytes));
        if found == digest {
            Ok(bytes)
        } else {
            Err(ImageError::Digest { what: "blob".to_owned(), wanted: digest.to_owned(), found })
        }
    };
    let path = directory.join("index.json");
    let mut manifest = parse(&fs::read(&path).map_err(ImageError::io(&path))?)?;
    for _ in 0..3 {
        match platform_manifest(&manifest)? {
            Some(digest) => manifest = parse(&read(&digest)?)?,
            None => break,
        }
    }
    let (id, layers) = contents(&manifest)?;
    let config = read(&id)?;
    let layers = layers.iter().map(|digest| blob(digest)).collect::<Result<_, _>>()?;
    Ok(Parts { id, config, layers })
}

fn parse(bytes: &[u8]) -> Result<Value, ImageError> {
    if bytes.len() >= MAX_MANIFEST {
        return Err(ImageError::Manifest { reason: "too large".to_owned() });
    }
    serde_json::from_slice(bytes).map_err(|error| ImageError::Manifest { reason: error.to_string() })
}

/// Returns the digest of the manifest for this machine, if the given one is an index.
fn platform_manifest(manifest: &Value) -> Result<Option<String>, ImageError> {
    let Some(all) = manifest["manifests"].as_array() else { return Ok(None) };
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let is_for = |one: &&Value, wanted: &str| {
        one["platform"]["architecture"] == wanted && one["platform"]["os"] == "linux"
    };
    let found = all.iter().find(|one| is_for(one, architecture));
    // A layout of a single image names no platform.
    let found = found.or(all.first().filter(|one| all.len() == 1 && one["platform"].is_null()));
    match found.and_then(|one| one["digest"].as_str()) {
        Some(digest) => Ok(Some(digest.to_owned())),
        None => Err(ImageError::Manifest { reason: format!("no image for linux/{architecture}") }),
    }
}

/// Returns the digests of the configuration and of the layers.
fn contents(manifest: &Value) -> Result<(String, Vec<String>), ImageError> {
    let invalid = || ImageError::Manifest { reason: "neither a manifest nor an index".to_owned() };
    let id = manifest["config"]["digest"].as_str().ok_or_else(invalid)?.to_owned();
    let layers = manifest["layers"].as_array().ok_or_else(invalid)?;
    let layers = layers.iter().map(|layer| Ok(layer["digest"].as_str().ok_or_else(invalid)?.to_owned()));
    Ok((id, layers.collect::<Result<_, ImageError>>()?))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageError> + Send + 'static,
) -> Result<T, ImageError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(ImageError::Manifest { reason: error.to_string() }))
}
