//! The executor end to end.
use jobwright::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[derive(serde::Serialize, serde::Deserialize)]
struct Touch {
    n: i64,
}
impl Command for Touch {
    const KIND: &'static str = "touch";
    type State = Arc<AtomicUsize>;
    async fn execute(self, cx: &mut JobContext<'_, Self::State>) -> Result<Outcome, JobError> {
        cx.transaction().await?.execute("select 1", &[]).await?;
        cx.state().fetch_add(1, Ordering::SeqCst);
        if self.n > 0 {
            cx.send(Touch { n: self.n - 1 })?;
        }
        Ok(Outcome::Done)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_to_end() {
    tracing_subscriber::fmt().with_env_filter("warn,jobwright=info").init();
    let config =
        DatabaseConfig { schema: "e2e".into(), ..DatabaseConfig::url("postgres://postgres@127.0.0.1:5432/test") };
    let messages = MessageServices::postgres(&config).await.unwrap();
    messages.migrate().await.unwrap();
    let hits = Arc::new(AtomicUsize::new(0));
    let executor = CommandExecutor::builder(messages.clone())
        .command::<Touch>()
        .state(hits.clone())
        .handle("noop", |_| async { Ok(Outcome::Done) })
        .queue("default", 500)
        .start()
        .await
        .unwrap();
    for _ in 0..10 {
        messages.send(Touch { n: 3 }).await.unwrap();
    }
    let t = Instant::now();
    while hits.load(Ordering::SeqCst) < 40 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(t.elapsed().as_secs() < 10);
    }
    println!("40 touches {:?} {:?}", t.elapsed(), executor.stats());
    let n = 50_000usize;
    let mut cx = messages.begin();
    for i in 0..n {
        cx.send(NewJob::json("noop", &i)).unwrap();
    }
    let t = Instant::now();
    cx.commit().await.unwrap();
    println!("sent {n} in {:?}", t.elapsed());
    let t = Instant::now();
    while (executor.stats().done as usize) < n + 40 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(t.elapsed().as_secs() < 30, "{:?}", executor.stats());
    }
    println!("drained in {:?}: {}/s {:?}", t.elapsed(), n as f64 / t.elapsed().as_secs_f64(), executor.stats());
    println!("{:?}", executor.shutdown(Duration::from_secs(1)).await.unwrap());
    println!("{:?}", messages.jobs().status().await.unwrap());
}
