//! The task that asks.

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

    /// Answers questions until nobody has any.
    pub(super) async fn run(
        mut self,
        mut questions: mpsc::Receiver<UnknownContainers>,
        answers: mpsc::Sender<PodLists>,
    ) {
        while let Some(question) = questions.recv().await {
            let answer = self.answer(&question).await;
            if answers.send(answer).await.is_err() {
                return;
            }
        }
    }

    /// Asks Kubernetes, and if that does not know all the runtime.
    async fn answer(&mut self, question: &UnknownContainers) -> PodLists {
        let mut answer = PodLists::default();
        if let Some(lists) = &mut self.lists {
            answer.listed = lists.ask().await;
        }
        let is_complete = answer
            .listed
            .as_ref()
            .is_some_and(|list| question.iter().all(|id| list.has(id)));
        if let Some(runtime) = &mut self.runtime
            && !is_complete
        {
            answer.running = runtime.ask().await;
        }
        answer
    }
}
