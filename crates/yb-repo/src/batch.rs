//! Batches requests to a store: requests that arrive while a git process is running are sent to the next one together, so a
//! thousand trials do not need a thousand processes.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::capture::ObjectStore;
use super::error::{GitError, RepoError};
use super::tree::{GITLINK, TreeFile};
use crate::diff::Diff;

const TREE: u32 = 0o040_000;
/// The most tree entries, and the most sizes, that are cached.
const CACHE_LIMIT: usize = 2_000_000;

type BatchFuture<V> = Pin<Box<dyn Future<Output = Result<Vec<V>, RepoError>> + Send>>;
type PendingRequests<K, V> = Vec<(K, oneshot::Sender<Result<V, String>>)>;

type SharedBatcher<K, V> = Arc<Batcher<K, V>>;

/// Batches requests of one kind.
struct Batcher<K, V> {
    state: Mutex<BatcherState<K, V>>,
    /// Handles a batch, with responses in the order of requests.
    handler: Box<dyn Fn(Vec<K>) -> BatchFuture<V> + Send + Sync>,
}

struct BatcherState<K, V> {
    pending: PendingRequests<K, V>,
    running: bool,
}

impl<K, V> Batcher<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + 'static,
{
    fn new(handler: impl Fn(Vec<K>) -> BatchFuture<V> + Send + Sync + 'static) -> Arc<Self> {
        let state = Mutex::new(BatcherState { pending: Vec::new(), running: false });
        Arc::new(Self { state, handler: Box::new(handler) })
    }

    async fn request(self: &Arc<Self>, keys: Vec<K>) -> Result<Vec<V>, RepoError> {
        let mut receivers = Vec::with_capacity(keys.len());
        let mut spawn = false;
        {
            let mut state = lock(&self.state);
            for key in keys {
                let (sender, receiver) = oneshot::channel();
                state.pending.push((key, sender));
                receivers.push(receiver);
            }
            if !receivers.is_empty() && !state.running {
                state.running = true;
                spawn = true;
            }
        }
        if spawn {
            tokio::spawn(Arc::clone(self).run());
        }
        let mut responses = Vec::with_capacity(receivers.len());
        for receiver in receivers {
            let response = receiver.await.unwrap_or_else(|_| Err("the request was dropped".to_owned()));
            responses.push(response.map_err(unreadable)?);
        }
        Ok(responses)
    }

    async fn run(self: Arc<Self>) {
        loop {
            // Lets other tasks that are ready add their requests to the batch.
            tokio::task::yield_now().await;
            let pending = {
                let mut state = lock(&self.state);
                if state.pending.is_empty() {
                    state.running = false;
                    return;
                }
                std::mem::take(&mut state.pending)
            };
            let keys: Vec<K> = {
                let mut seen = HashSet::new();
                pending.iter().map(|(key, _)| key).filter(|key| seen.insert(*key)).cloned().collect()
            };
            let responses: Result<HashMap<K, V>, String> = match (self.handler)(keys.clone()).await {
                Ok(responses) => Ok(keys.into_iter().zip(responses).collect()),
                Err(error) => Err(error.to_string()),
            };
            for (key, sender) in pending {
                let response = match &responses {
                    Ok(responses) => responses.get(&key).cloned().ok_or_else(|| "no response".to_owned()),
                    Err(error) => Err(error.clone()),
                };
                let _ = sender.send(response);
            }
        }
    }
}

/// An entry of a tree.
#[derive(Debug, Clone)]
struct TreeEntry {
    mode: u32,
    name: Vec<u8>,
    id: String,
}

/// Reads a store for many trials at once.
pub(crate) struct BatchReader {
    trees: SharedBatcher<String, Arc<Vec<TreeEntry>>>,
    sizes: SharedBatcher<String, u64>,
    contents: SharedBatcher<(String, u64), Arc<Vec<u8>>>,
    diffs: SharedBatcher<(String, String), Arc<Diff>>,
    cache: Mutex<ReadCache>,
}

#[derive(Default)]
struct ReadCache {
    trees: HashMap<String, Arc<Vec<TreeEntry>>>,
    entries: usize,
    sizes: HashMap<String, u64>,
}

impl std::fmt::Debug for BatchReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("BatchReader")
    }
}

impl BatchReader {
    pub(crate) fn new(store: &ObjectStore) -> Self {
        let (one, two, three, four) = (store.clone(), store.clone(), store.clone(), store.clone());
        Self {
            trees: Batcher::new(move |ids| {
                let store = one.clone();
                Box::pin(async move { trees(&store, &ids).await })
            }),
            sizes: Batcher::new(move |ids| {
                let store = two.clone();
                Box::pin(async move { sizes(&store, &ids).await })
            }),
            contents: Batcher::new(move |wanted| {
                let store = three.clone();
                Box::pin(async move { contents(&store, wanted).await })
            }),
            diffs: Batcher::new(move |pairs| {
                let store = four.clone();
                Box::pin(async move {
                    let diffs = store.diffs(&pairs).await?;
                    Ok(diffs.into_iter().map(Arc::new).collect())
                })
            }),
            cache: Mutex::default(),
        }
    }

    /// The batched [`ObjectStore::list`].
    pub(crate) async fn list(&self, tree: &str) -> Result<Vec<TreeFile>, RepoError> {
        let mut files = Vec::new();
        let mut level = vec![(Vec::new(), tree.to_owned())];
        while !level.is_empty() {
            let trees = self.trees(level.iter().map(|(_, id)| id.clone()).collect()).await?;
            let mut next = Vec::new();
            for ((prefix, _), entries) in level.into_iter().zip(trees) {
                for entry in entries.iter() {
                    let mut path: Vec<u8> = [prefix.as_slice(), &entry.name].concat();
                    match entry.mode {
                        TREE => {
                            path.push(b'/');
                            next.push((path, entry.id.clone()));
                        }
                        GITLINK => {}
                        mode => files.push(TreeFile { mode, id: entry.id.clone(), size: 0, path }),
                    }
                }
            }
            level = next;
        }
        let sizes = self.sizes(&files).await?;
        for (file, size) in files.iter_mut().zip(sizes) {
            file.size = size;
        }
        files.sort_by(|one, two| one.path.cmp(&two.path));
        Ok(files)
    }

    /// The batched [`ObjectStore::contents`].
    pub(crate) async fn contents(&self, files: &[&TreeFile]) -> Result<Vec<Vec<u8>>, RepoError> {
        let wanted = files.iter().map(|file| (file.id.clone(), file.size)).collect();
        let found = self.contents.request(wanted).await?;
        Ok(found.into_iter().map(|content| content.as_ref().clone()).collect())
    }

    /// The batched [`ObjectStore::diff`].
    pub(crate) async fn diff(&self, from: &str, to: &str) -> Result<Diff, RepoError> {
        let mut found = self.diffs.request(vec![(from.to_owned(), to.to_owned())]).await?;
        Ok(found.pop().map(|diff| diff.as_ref().clone()).unwrap_or_default())
    }

    async fn trees(&self, ids: Vec<String>) -> Result<Vec<Arc<Vec<TreeEntry>>>, RepoError> {
        let missing: Vec<String> = {
            let cache = lock(&self.cache);
            ids.iter().filter(|id| !cache.trees.contains_key(*id)).cloned().collect()
        };
        let found = self.trees.request(missing.clone()).await?;
        let new: HashMap<String, Arc<Vec<TreeEntry>>> = missing.into_iter().zip(found).collect();
        let all: Option<Vec<_>> = {
            let mut cache = lock(&self.cache);
            let all = ids.iter().map(|id| new.get(id).or_else(|| cache.trees.get(id)).cloned()).collect();
            if cache.entries > CACHE_LIMIT {
                (cache.trees, cache.entries) = (HashMap::new(), 0);
            }
            for (id, entries) in new {
                cache.entries += entries.len() + 1;
                cache.trees.insert(id, entries);
            }
            all
        };
        match all {
            Some(all) => Ok(all),
            // Another task cleared the cache in between: request all of them.
            None => self.trees.request(ids).await,
        }
    }

    async fn sizes(&self, files: &[TreeFile]) -> Result<Vec<u64>, RepoError> {
        let missing: Vec<String> = {
            let cache = lock(&self.cache);
            files.iter().map(|file| &file.id).filter(|id| !cache.sizes.contains_key(*id)).cloned().collect()
        };
        let found = self.sizes.request(missing.clone()).await?;
        let new: HashMap<String, u64> = missing.into_iter().zip(found).collect();
        let all: Option<Vec<u64>> = {
            let mut cache = lock(&self.cache);
            let size = |id: &String| new.get(id).or_else(|| cache.sizes.get(id)).copied();
            let all = files.iter().map(|file| size(&file.id)).collect();
            if cache.sizes.len() > CACHE_LIMIT {
                cache.sizes.clear();
            }
            cache.sizes.extend(new);
            all
        };
        match all {
            Some(all) => Ok(all),
            None => self.sizes.request(files.iter().map(|file| file.id.clone()).collect()).await,
        }
    }
}

async fn trees(store: &ObjectStore, ids: &[String]) -> Result<Vec<Arc<Vec<TreeEntry>>>, RepoError> {
    let answer = store.cat_file(ids, "--batch").await?;
    let mut rest = answer.as_slice();
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let bad = || unreadable(format!("no tree `{id}`"));
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(bad)?;
        let head = std::str::from_utf8(&rest[..end]).map_err(|_| bad())?;
        let size = head.strip_prefix(id.as_str()).and_then(|head| head.strip_prefix(" tree "));
        let size: usize = size.and_then(|size| size.parse().ok()).ok_or_else(bad)?;
        let content = rest.get(end + 1..end + 1 + size).ok_or_else(bad)?;
        found.push(Arc::new(parse_tree(content, id.len() / 2).ok_or_else(bad)?));
        rest = rest.get(end + 2 + size..).ok_or_else(bad)?;
    }
    Ok(found)
}

/// Parses a tree object: `<mode> <name>\0<id>` for each entry.
fn parse_tree(mut content: &[u8], id_bytes: usize) -> Option<Vec<TreeEntry>> {
    let mut entries = Vec::new();
    while !content.is_empty() {
        let space = content.iter().position(|byte| *byte == b' ')?;
        let end = content.iter().position(|byte| *byte == 0)?;
        let mode = u32::from_str_radix(std::str::from_utf8(&content[..space]).ok()?, 8).ok()?;
        let id = content.get(end + 1..end + 1 + id_bytes)?;
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        entries.push(TreeEntry { mode, name: content.get(space + 1..end)?.to_vec(), id });
        content = &content[end + 1 + id_bytes..];
    }
    Some(entries)
}

async fn sizes(store: &ObjectStore, ids: &[String]) -> Result<Vec<u64>, RepoError> {
    let answer = store.cat_file(ids, "--batch-check=%(objectname) %(objectsize)").await?;
    let text = String::from_utf8_lossy(&answer);
    let sizes: Option<Vec<u64>> = ids
        .iter()
        .zip(text.lines())
        .map(|(id, line)| line.strip_prefix(id.as_str())?.trim().parse().ok())
        .collect();
    sizes.filter(|sizes| sizes.len() == ids.len()).ok_or_else(|| unreadable("sizes are missing".to_owned()))
}

async fn contents(store: &ObjectStore, wanted: Vec<(String, u64)>) -> Result<Vec<Arc<Vec<u8>>>, RepoError> {
    let files: Vec<TreeFile> = wanted
        .into_iter()
        .map(|(id, size)| TreeFile { mode: 0o100_644, id, size, path: Vec::new() })
        .collect();
    let files: Vec<&TreeFile> = files.iter().collect();
    Ok(store.read_contents(&files).await?.into_iter().map(Arc::new).collect())
}

fn unreadable(problem: String) -> RepoError {
    GitError::BadOutput { command: "cat-file".to_owned(), problem }.into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
