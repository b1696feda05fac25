//! The task that requests lists.

use tokio::sync::mpsc;

use super::{fetch::Fetch, runtime::Runtime, source::Source};
use crate::targets::labels::pods::{PodLists, UnknownContainers};

/// The task.
pub(super) struct Worker<F> {
    lists: Option<Source<F>>,
    runtime: Option<Source<Runtime>>,
}

impl<F: Fetch> Worker<F> {
    pub(super) fn new(lists: Option<Source<F>>, runtime: Option<Source<Runtime>>) -> Self {
        Self { lists, runtime }
    }

    /// Serves requests until the handle is dropped.
    pub(super) async fn run(
        mut self,
        mut requests: mpsc::Receiver<UnknownContainers>,
        responses: mpsc::Sender<PodLists>,
    ) {
        while let Some(containers) = requests.recv().await {
            let lists = self.lists_for(&containers).await;
            if responses.send(lists).await.is_err() {
                return;
            }
        }
    }

    /// Requests the list of Kubernetes, and that of the runtime if containers are missing in it.
    async fn lists_for(&mut self, containers: &UnknownContainers) -> PodLists {
        let mut lists_found = PodLists::default();
        if let Some(lists) = &mut self.lists {
            lists_found.listed = lists.list().await;
        }
        let is_complete = lists_found
            .listed
            .as_ref()
            .is_some_and(|list| containers.iter().all(|id| list.has(id)));
        if let Some(runtime) = &mut self.runtime
            && !is_complete
        {
            lists_found.running = runtime.list().await;
        }
        lists_found
    }
}
