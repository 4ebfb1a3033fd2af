//! The programs of docs/sql.md run, are killed, and come too late.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jobwright::admin::JobState;
use jobwright::{JobId, NewJob};
use serde_json::json;

use super::Site;
use crate::interop::programs::python;
use crate::support::environment::PATIENCE;
use crate::support::{eventually, unique};

/// Returns the first block of this language.
fn block(language: &str) -> String {
    let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sql.md")).unwrap();
    let (_, rest) = document.split_once(&format!("\n```{language}\n")).unwrap_or_else(|| panic!("no {language}"));
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// A program of the document, adapted to the schema of the test, with a lease of a second.
struct Program {
    source: PathBuf,
    url: String,
}

impl Program {
    fn python(site: &Site) -> Self {
        let schema = site.db.schema();
        let text = block("python")
            .replace("jobwright.", &format!("{schema}."))
            .replace("jobwright_wake", &format!("{schema}_wake"));
        assert!(text.contains("\"1 minute\""), "{text}");
        let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{schema}.py"));
        fs::write(&source, text.replace("\"1 minute\"", "\"1 second\"")).unwrap();
        Self { source, url: site.db.session_url() }
    }

    fn start(&self) -> Running {
        let said = self.source.with_file_name(format!("{}.txt", unique("said_")));
        let out = fs::File::create(&said).unwrap();
        let child = Command::new(python())
            .arg(&self.source)
            .env("DATABASE_URL", &self.url)
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        Running { child, said }
    }
}

struct Running {
    child: Child,
    said: PathBuf,
}

impl Running {
    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    /// Sends a signal, named as `kill` names it.
    fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success(), "kill -{name}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the program said:\n{}", self.said());
        }
        let _ = fs::remove_file(&self.said);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.source);
    }
}

fn mail(number: usize) -> NewJob {
    NewJob::json("mail", &json!({ "to": format!("a{number}@example.com") })).queue("mail")
}

impl Site {
    /// Sends a mail, and wakes the program, which looks every five seconds by itself.
    async fn send_mail(&self, mail: NewJob) -> JobId {
        let id = self.jobs.send(mail).await;
        self.worker.query_one("select wake('mail')", &[]).await.unwrap();
        id
    }

    async fn sent(&self) -> Vec<String> {
        let rows = self.worker.query("select address from sent_mail order by address", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_python_works_is_killed_and_comes_too_late() {
    let Some(site) = Site::create().await else { return };
    site.worker.batch_execute("create table sent_mail (address text not null)").await.unwrap();
    let program = Program::python(&site);
    let first = program.start();
    site.jobs.send_all((0..20).map(mail)).await;
    site.worker.query_one("select wake('mail')", &[]).await.unwrap();
    eventually(PATIENCE, async || site.jobs.all().await.is_empty()).await;
    assert_eq!(site.sent().await.len(), 20);
    assert_eq!(site.jobs.status().await.unwrap().workers.len(), 1);

    // A job that fails is retried by policy.
    let wrong = site.send_mail(NewJob::json("mail", &json!({})).queue("mail")).await;
    eventually(PATIENCE, async || site.jobs.state(wrong).await == Some(JobState::Timer)).await;
    assert_eq!(site.jobs.detail(wrong).await.errors[0].error, "KeyError: 'to'");

    // It is killed in the middle of its work, which waits for this lock. Its job runs again after the lease.
    site.worker.batch_execute("truncate sent_mail").await.unwrap();
    let lock = site.db.hold("lock table {schema}.sent_mail in exclusive mode").await;
    let killed = site.send_mail(mail(100)).await;
    eventually(PATIENCE, async || lock.waiting().await == 1).await;
    // Its session does not know yet, and goes on waiting.
    drop(first);
    eventually(PATIENCE, async || site.jobs.expire_external(9).await.unwrap().waiting == 1).await;
    lock.release().await;
    let second = program.start();
    eventually(PATIENCE, async || site.jobs.state(killed).await.is_none()).await;
    assert_eq!(site.sent().await, ["a100@example.com"]);

    // It is too late: its lease ends while it is stopped, and another ends the job. Its own work is rolled back.
    let lock = site.db.hold("lock table {schema}.sent_mail in exclusive mode").await;
    let late = site.send_mail(mail(101)).await;
    eventually(PATIENCE, async || lock.waiting().await == 1).await;
    second.signal("STOP");
    eventually(PATIENCE, async || site.jobs.expire_external(9).await.unwrap().waiting == 1).await;
    lock.release().await;
    let node = site.jobs.node().await;
    let job = site.jobs.take_from("mail", node, 1).await.remove(0);
    assert_eq!((job.id, job.attempt), (late, 2));
    site.jobs.finish(node, &job).await;
    second.signal("CONT");
    eventually(PATIENCE, async || second.said().contains(&format!("{late} was ended elsewhere"))).await;
    assert_eq!(site.sent().await, ["a100@example.com"]);

    // It ends when it is asked to.
    let mut second = second;
    second.signal("TERM");
    eventually(PATIENCE, async || second.child.try_wait().unwrap().is_some_and(|status| status.success())).await;
}
