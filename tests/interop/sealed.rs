//! Sealed content: what one language seals, the other opens.

use std::process::Stdio;
use std::time::Duration;

use jobwright::codec::{Codec as _, ContentKind, Label, Seal, SealKey};
use jobwright::{JobId, Payload};
use tokio::io::AsyncWriteExt as _;

use crate::interop::programs::{Ended, Stage};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn seal() -> Seal {
    Seal::new(SealKey::from_base64("2026-11", KEY).unwrap())
}

async fn run(stage: &Stage, arguments: &[&str], input: &[u8]) -> Ended {
    let mut command = stage.language.command("sealed");
    command.args(arguments).env("SEAL_KEY", format!("2026-11={KEY}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(90), child.wait_with_output()).await.unwrap().unwrap();
    let lines = String::from_utf8(ended.stdout).unwrap().lines().map(str::to_owned).collect();
    Ended { code: ended.status.code(), lines, errors: String::from_utf8_lossy(&ended.stderr).into_owned() }
}

pub(crate) async fn opens_our_sealed_payloads_and_seals_payloads_that_we_open(stage: &Stage) {
    let label = Label::new(ContentKind::Payload, "pay \"it\"");
    let plain = Payload::json(&format!("Grüezi {}", JobId::new())).unwrap();
    let sealed = seal().encode(plain.clone(), label).unwrap();
    let opened = run(stage, &["open", label.kind, "payload"], sealed.as_bytes()).await.lines();
    assert_eq!(opened, [plain.as_str().unwrap()]);

    let theirs = run(stage, &["seal", label.kind, "payload"], plain.as_bytes()).await.lines();
    let theirs = Payload::bytes("application/jose", theirs.concat());
    assert_eq!(seal().decode(theirs, label).unwrap(), plain);
}

pub(crate) async fn refuses_payloads_sealed_for_another_job(stage: &Stage) {
    let sealed = seal().encode(Payload::text("x"), Label::new(ContentKind::Payload, "pay")).unwrap();
    for (kind, part) in [("refund", "payload"), ("pay", "result")] {
        let refused = run(stage, &["open", kind, part], sealed.as_bytes()).await;
        assert_eq!((refused.code, refused.lines.is_empty()), (Some(1), true), "{refused:?}");
    }
    let mut changed = sealed.as_str().unwrap().to_owned();
    let last = changed.pop().unwrap();
    changed.push(if last == 'A' { 'Q' } else { 'A' });
    let refused = run(stage, &["open", "pay", "payload"], changed.as_bytes()).await;
    assert_eq!((refused.code, refused.lines.is_empty()), (Some(1), true), "{refused:?}");
}
