//! Many questions to a store for one git: what is asked while a git is at work is asked together next, so that a thousand
//! trials do not cost a thousand processes.

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
/// How many entries of trees, and how many sizes, are remembered.
const REMEMBERED: usize = 2_000_000;

type Answers<V> = Pin<Box<dyn Future<Output = Result<Vec<V>, RepoError>> + Send>>;
type Waiting<K, V> = Vec<(K, oneshot::Sender<Result<V, String>>)>;

type Asked<K, V> = Arc<Gatherer<K, V>>;

/// Gathers questions of one kind.
struct Gatherer<K, V> {
    state: Mutex<State<K, V>>,
    /// Answers many at once, in their order.
    answer: Box<dyn Fn(Vec<K>) -> Answers<V> + Send + Sync>,
}

struct State<K, V> {
    waiting: Waiting<K, V>,
    at_work: bool,
}

impl<K, V> Gatherer<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + 'static,
{
    fn new(answer: impl Fn(Vec<K>) -> Answers<V> + Send + Sync + 'static) -> Arc<Self> {
        let state = Mutex::new(State { waiting: Vec::new(), at_work: false });
        Arc::new(Self { state, answer: Box::new(answer) })
    }

    async fn ask(self: &Arc<Self>, keys: Vec<K>) -> Result<Vec<V>, RepoError> {
        let mut receivers = Vec::with_capacity(keys.len());
        let mut begin = false;
        {
            let mut state = lock(&self.state);
            for key in keys {
                let (sender, receiver) = oneshot::channel();
                state.waiting.push((key, sender));
                receivers.push(receiver);
            }
            if !receivers.is_empty() && !state.at_work {
                state.at_work = true;
                begin = true;
            }
        }
        if begin {
            tokio::spawn(Arc::clone(self).work());
        }
        let mut answers = Vec::with_capacity(receivers.len());
        for receiver in receivers {
            let answer = receiver.await.unwrap_or_else(|_| Err("it was lost".to_owned()));
            answers.push(answer.map_err(|what| GitError::Answer { command: "cat-file".to_owned(), what })?);
        }
        Ok(answers)
    }

    async fn work(self: Arc<Self>) {
        loop {
            // Whoever is about to ask comes along.
            tokio::task::yield_now().await;
            let waiting = {
                let mut state = lock(&self.state);
                if state.waiting.is_empty() {
                    state.at_work = false;
                    return;
                }
                std::mem::take(&mut state.waiting)
            };
            let keys: Vec<K> = {
                let mut seen = HashSet::new();
                waiting.iter().map(|(key, _)| key).filter(|key| seen.insert(*key)).cloned().collect()
            };
            let known: Result<HashMap<K, V>, String> = match (self.answer)(keys.clone()).await {
                Ok(answers) => Ok(keys.into_iter().zip(answers).collect()),
                Err(error) => Err(error.to_string()),
            };
            for (key, sender) in waiting {
                let answer = match &known {
                    Ok(known) => known.get(&key).cloned().ok_or_else(|| "no answer".to_owned()),
                    Err(error) => Err(error.clone()),
                };
                let _ = sender.send(answer);
            }
        }
    }
}

/// An entry of a tree.
#[derive(Debug, Clone)]
struct Entry {
    mode: u32,
    name: Vec<u8>,
    id: String,
}

/// Reads a store for many at once.
pub(crate) struct Reader {
    trees: Asked<String, Arc<Vec<Entry>>>,
    sizes: Asked<String, u64>,
    contents: Asked<(String, u64), Arc<Vec<u8>>>,
    diffs: Asked<(String, String), Arc<Diff>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    trees: HashMap<String, Arc<Vec<Entry>>>,
    entries: usize,
    sizes: HashMap<String, u64>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reader")
    }
}

impl Reader {
    pub(crate) fn new(store: &ObjectStore) -> Self {
        let (one, two, three, four) = (store.clone(), store.clone(), store.clone(), store.clone());
        Self {
            trees: Gatherer::new(move |ids| {
                let store = one.clone();
                Box::pin(async move { trees(&store, &ids).await })
            }),
            sizes: Gatherer::new(move |ids| {
                let store = two.clone();
                Box::pin(async move { sizes(&store, &ids).await })
            }),
            contents: Gatherer::new(move |wanted| {
                let store = three.clone();
                Box::pin(async move { contents(&store, wanted).await })
            }),
            diffs: Gatherer::new(move |pairs| {
                let store = four.clone();
                Box::pin(async move {
                    let diffs = store.diffs(&pairs).await?;
                    Ok(diffs.into_iter().map(Arc::new).collect())
                })
            }),
            known: Mutex::default(),
        }
    }

    /// As [`ObjectStore::list`].
    pub(crate) async fn list(&self, tree: &str) -> Result<Vec<TreeFile>, RepoError> {
        let mut files = Vec::new();
        let mut level = vec![(Vec::new(), tree.to_owned())];
        while !level.is_empty() {
            let found = self.trees(level.iter().map(|(_, id)| id.clone()).collect()).await?;
            let mut next = Vec::new();
            for ((prefix, _), entries) in level.into_iter().zip(found) {
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

    /// As [`ObjectStore::contents`].
    pub(crate) async fn contents(&self, files: &[&TreeFile]) -> Result<Vec<Vec<u8>>, RepoError> {
        let wanted = files.iter().map(|file| (file.id.clone(), file.size)).collect();
        let found = self.contents.ask(wanted).await?;
        Ok(found.into_iter().map(|content| content.as_ref().clone()).collect())
    }

    /// As [`ObjectStore::diff`].
    pub(crate) async fn diff(&self, from: &str, to: &str) -> Result<Diff, RepoError> {
        let mut found = self.diffs.ask(vec![(from.to_owned(), to.to_owned())]).await?;
        Ok(found.pop().map(|diff| diff.as_ref().clone()).unwrap_or_default())
    }

    async fn trees(&self, ids: Vec<String>) -> Result<Vec<Arc<Vec<Entry>>>, RepoError> {
        let missing: Vec<String> = {
            let known = lock(&self.known);
            ids.iter().filter(|id| !known.trees.contains_key(*id)).cloned().collect()
        };
        let found = self.trees.ask(missing.clone()).await?;
        let new: HashMap<String, Arc<Vec<Entry>>> = missing.into_iter().zip(found).collect();
        let all: Option<Vec<_>> = {
            let mut known = lock(&self.known);
            let all = ids.iter().map(|id| new.get(id).or_else(|| known.trees.get(id)).cloned()).collect();
            if known.entries > REMEMBERED {
                (known.trees, known.entries) = (HashMap::new(), 0);
            }
            for (id, entries) in new {
                known.entries += entries.len() + 1;
                known.trees.insert(id, entries);
            }
            all
        };
        match all {
            Some(all) => Ok(all),
            // Somebody made room in between: all of them again.
            None => self.trees.ask(ids).await,
        }
    }

    async fn sizes(&self, files: &[TreeFile]) -> Result<Vec<u64>, RepoError> {
        let missing: Vec<String> = {
            let known = lock(&self.known);
            files.iter().map(|file| &file.id).filter(|id| !known.sizes.contains_key(*id)).cloned().collect()
        };
        let found = self.sizes.ask(missing.clone()).await?;
        let new: HashMap<String, u64> = missing.into_iter().zip(found).collect();
        let all: Option<Vec<u64>> = {
            let mut known = lock(&self.known);
            let size = |id: &String| new.get(id).or_else(|| known.sizes.get(id)).copied();
            let all = files.iter().map(|file| size(&file.id)).collect();
            if known.sizes.len() > REMEMBERED {
                known.sizes.clear();
            }
            known.sizes.extend(new);
            all
        };
        match all {
            Some(all) => Ok(all),
            None => self.sizes.ask(files.iter().map(|file| file.id.clone()).collect()).await,
        }
    }
}

async fn trees(store: &ObjectStore, ids: &[String]) -> Result<Vec<Arc<Vec<Entry>>>, RepoError> {
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
        found.push(Arc::new(entries(content, id.len() / 2).ok_or_else(bad)?));
        rest = rest.get(end + 2 + size..).ok_or_else(bad)?;
    }
    Ok(found)
}

/// `<mode> <name>\0<id>`, as often as there are entries.
fn entries(mut content: &[u8], id_bytes: usize) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while !content.is_empty() {
        let space = content.iter().position(|byte| *byte == b' ')?;
        let end = content.iter().position(|byte| *byte == 0)?;
        let mode = u32::from_str_radix(std::str::from_utf8(&content[..space]).ok()?, 8).ok()?;
        let id = content.get(end + 1..end + 1 + id_bytes)?;
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        entries.push(Entry { mode, name: content.get(space + 1..end)?.to_vec(), id });
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
    Ok(store.contents_now(&files).await?.into_iter().map(Arc::new).collect())
}

fn unreadable(what: String) -> RepoError {
    GitError::Answer { command: "cat-file".to_owned(), what }.into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
