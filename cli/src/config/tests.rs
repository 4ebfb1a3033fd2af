use std::io::Write as _;
use std::time::Duration;

use jobwright::{Config, ExternalQueue};

use super::keys::{Kind, SECTIONS, shout};
use super::*;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn load(file: &str, environment: &[(&str, &str)], url: Option<&str>) -> Result<Settings, String> {
    let mut written = tempfile::Builder::new().prefix("jobwright").suffix(".toml").tempfile().unwrap();
    written.write_all(file.as_bytes()).unwrap();
    let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
    Settings::from_sources(Some((written.path(), true)), environment, url.map(str::to_owned), None)
        .map_err(|e| e.to_string())
}

fn refused(file: &str, environment: &[(&str, &str)]) -> String {
    load(file, environment, None).expect_err("should be refused")
}

#[test]
fn later_sources_win() {
    let file = "[database]\nurl = \"sqlite:file.db\"\nmax_connections = 3\n[executor]\nlease = \"7s\"";
    let url = |environment: &[(&str, &str)], flag| load(file, environment, flag).unwrap().database.url.redacted();
    assert_eq!(url(&[], None), "sqlite:file.db");
    assert_eq!(url(&[("DATABASE_URL", "sqlite:env.db")], None), "sqlite:env.db");
    let both = [("JOBWRIGHT_DATABASE_URL", "sqlite:own.db"), ("DATABASE_URL", "sqlite:env.db")];
    assert_eq!(url(&both, None), "sqlite:own.db");
    assert_eq!(url(&both, Some("sqlite:flag.db")), "sqlite:flag.db");

    let settings = load(file, &[("JOBWRIGHT_DATABASE_MAX_CONNECTIONS", "5")], None).unwrap();
    assert_eq!(settings.database.max_connections, 5);
    assert_eq!(settings.executor.lease, Duration::from_secs(7));
    assert_eq!(settings.executor.grace, Duration::from_secs(30));
}

#[test]
fn queues_and_handlers_have_names() {
    let file =
        "[queues.mail-out]\nconcurrency = 2\n[queues.plain]\n[handlers.\"a.b\"]\ncommand = [\"cat\"]\ntimeout = \"5s\"";
    let environment = [
        ("JOBWRIGHT_QUEUES_MAIL_OUT_CONCURRENCY", "4"),
        ("JOBWRIGHT_HANDLERS_A_B_RETRY", "PT1M,PT5M"),
        ("JOBWRIGHT_HANDLERS_HOOK_URL", "http://localhost/x"),
        ("JOBWRIGHT_HANDLERS_LIST_COMMAND", "[\"ls\", \"-l\"]"),
    ];
    let settings = load(file, &environment, None).unwrap();
    assert_eq!(settings.queues["mail-out"].concurrency, Some(4));
    assert_eq!(settings.queues["plain"].concurrency, None);
    let options = &settings.handlers["a.b"].options;
    assert_eq!(options.timeout, Some(Duration::from_secs(5)));
    assert_eq!(options.retry, Some("PT1M,PT5M".parse().unwrap()));
    assert!(matches!(&settings.handlers["hook"].action, Action::Url(urls) if urls.len() == 1));
    assert!(matches!(&settings.handlers["list"].action, Action::Command(words) if words == &["ls", "-l"]));
}

#[test]
fn a_handler_has_one_url_or_several() {
    let urls =
        |file: &str, environment: &[(&str, &str)]| match &load(file, environment, None).unwrap().handlers["h"].action {
            Action::Url(urls) => urls.iter().map(jobwright::Secret::redacted).collect::<Vec<_>>(),
            Action::Command(_) => panic!("a command"),
        };
    let both = ["http://a:1", "https://b"];
    assert_eq!(urls("[handlers.h]\nurl = \"http://a:1/x\"", &[]), both[..1]);
    assert_eq!(urls("[handlers.h]\nurl = [\"http://a:1/x\", \"https://u:p@b\"]", &[]), both);
    assert_eq!(urls("", &[("JOBWRIGHT_HANDLERS_H_URL", "http://a:1/x")]), both[..1]);
    assert_eq!(urls("", &[("JOBWRIGHT_HANDLERS_H_URL", "[\"http://a:1\", \"https://b\"]")]), both);
    assert!(refused("[handlers.h]\nurl = []", &[]).contains("empty list"));
    assert!(refused("[handlers.h]\nurl = [\"http://a\", \"ftp://b\"]", &[]).contains("can't be used"));
    assert!(refused("[handlers.h]\nurl = 5", &[]).contains("a text, or a list of texts"));
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    for (file, meant) in [
        ("[executor]\nleese = \"1s\"", "unknown key `executor.leese`"),
        ("[executor]\nleese = \"1s\"", "did you mean `executor.lease`?"),
        ("[exekutor]\nlease = \"1s\"", "section `exekutor`"),
        ("[exekutor]\nlease = \"1s\"", "did you mean `executor`?"),
        ("datbase = 1", "did you mean `database`?"),
        ("[handlers.x]\ncomand = [\"cat\"]", "did you mean `handlers.x.command`?"),
        ("[queues]\ndefault = 5", "write `[queues.NAME]`"),
        ("[handlers.x]\ntimeout = \"1s\"", "neither `command` nor `url`"),
        ("[handlers.x]\ncommand = [\"a\"]\nurl = \"http://a\"", "both `command` and `url`"),
        ("[handlers.x]\ncommand = []", "empty `command`"),
        ("[handlers.x]\nurl = \"ftp://a\"", "http"),
        ("[history]\nkeep = \"some\"", "\"off\", \"failed\" or \"all\""),
        ("[history]\naudit = \"for a while\"", "is not a duration"),
        ("[history]\ndead_letters = 90", "or \"forever\""),
        ("[executor]\nlease = 30", "a duration such as"),
        ("[database]\nmax_connections = -1", "negative"),
    ] {
        let text = refused(file, &[]);
        assert!(text.contains(meant), "{text:?} does not say {meant:?}");
    }
    for (variable, meant) in [
        ("JOBWRIGHT_EXECUTOR_LEESE", "JOBWRIGHT_EXECUTOR_LEASE"),
        ("JOBWRIGHT_DATABASEURL", "JOBWRIGHT_DATABASE_URL"),
        ("JOBWRIGHT_QUEUES_CONCURRENCY", "JOBWRIGHT_QUEUES_NAME_CONCURRENCY"),
    ] {
        let text = refused("", &[(variable, "1")]);
        assert!(text.contains(&format!("unknown variable {variable} ")), "{text}");
        assert!(text.ends_with(&format!("did you mean {meant}?")), "{text}");
    }
}

/// Something that should have been inserted is missing. The default would be another database, no broker, or payloads that are not sealed.
#[test]
fn empty_settings_are_refused() {
    let keys = SECTIONS.iter().flat_map(|section| {
        let name = if section.named { "_A" } else { "" };
        section.keys.iter().map(move |(key, _)| format!("JOBWRIGHT_{}{name}_{}", shout(section.name), shout(key)))
    });
    for variable in keys.chain(["DATABASE_URL".to_owned(), "AMQP_URL".to_owned()]) {
        for empty in ["", " ", "\n"] {
            let text = refused("", &[(&variable, empty)]);
            assert!(text.contains(&format!("{variable} is set but empty")), "{text}");
        }
    }
    for section in SECTIONS {
        let name = if section.named { ".a" } else { "" };
        for (key, _) in section.keys.iter().filter(|(_, kind)| matches!(kind, Kind::Text | Kind::Texts)) {
            let text = refused(&format!("[{}{name}]\n{key} = \"  \"", section.name), &[]);
            assert!(text.contains("it is empty") && text.contains(key), "{text}");
        }
    }
    // These come from a worker or from Kubernetes, and are no settings.
    load("", &[("JOBWRIGHT_CONTENT_TYPE", ""), ("JOBWRIGHT_HEADER_A", ""), ("JOBWRIGHT_PORT", "")], None).unwrap();
}

#[test]
fn variables_for_programs_are_no_settings() {
    load("", &[("JOBWRIGHT_JOB_ID", "x"), ("JOBWRIGHT_HEADER_TENANT", "acme")], None).unwrap();
}

#[test]
fn no_error_shows_a_value() {
    let secret = "postgres://u:hunter2@h/d";
    for text in [
        refused(&format!("[database]\nurl = \"{secret}"), &[]),
        refused(&format!("[database]\nmax_connections = \"{secret}\""), &[]),
        refused(&format!("[database]\nurl = \"{secret}\" oops"), &[]),
        refused(&format!("[database]\nulr = \"{secret}\""), &[]),
        refused("", &[("JOBWRIGHT_DATABASE_MAX_CONNECTIONS", secret)]),
        refused("", &[("JOBWRIGHT_DATABSE_URL", secret)]),
        refused("", &[("JOBWRIGHT_HANDLERS_X_COMMAND", secret)]),
        refused("", &[("DATABASE_URL", "mysql:hunter2@h")]),
        refused("[handlers.x]\nurl = \"ftp://u:hunter2@h\"", &[]),
        refused(&format!("[executor]\nlease = \"{secret}\""), &[]),
        refused("", &[("JOBWRIGHT_QUEUES_A_RETRY", secret)]),
        refused(&format!("[history]\naudit = \"{secret}\""), &[]),
        refused("", &[("JOBWRIGHT_HISTORY_DEAD_LETTERS", secret)]),
        refused(&format!("[seal]\nkey = \"{secret}\"\n[seal_keys.a]\nsecret = \"{KEY}\""), &[]),
        refused(&format!("[seal]\nkey = \"a\"\n[seal_keys.a]\nfile = \"{secret}\""), &[]),
    ] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    let shown = format!("{:?}", load("", &[("DATABASE_URL", secret)], None).unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// The library lists its keys when it refuses one; the command line must have the same.
#[test]
fn every_key_of_the_library_can_be_set() {
    for name in ["database", "executor", "broker", "history"] {
        let text = format!("{name} = {{ nonsense = 1 }}");
        let error = toml::from_str::<Config>(&text).unwrap_err().message().to_owned();
        let (_, fields) = error.split_once("expected").unwrap();
        let mut theirs: Vec<&str> = fields.split('`').skip(1).step_by(2).collect();
        let section = SECTIONS.iter().find(|section| section.name == name).unwrap();
        let mut ours: Vec<&str> = section.keys.iter().map(|(key, _)| *key).collect();
        // It has a separate section: `[submit.rules]`.
        theirs.retain(|key| *key != "submit_rules");
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, theirs, "{error}");
    }
}

/// docs/stability.md promises the keys of that table.
#[test]
fn every_key_is_documented() {
    let document = include_str!("../../../docs/operations.md");
    let table = document.split_once("| key | default | range | meaning |").unwrap().1.split_once("\n\n").unwrap().0;
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    // Placeholders for names are in capitals.
    let plain =
        |key: &str| key.split('.').filter(|part| !part.contains(char::is_uppercase)).collect::<Vec<_>>().join(".");
    let mut documented: Vec<String> = rows.map(|(key, _)| plain(key)).collect();
    let keys =
        SECTIONS.iter().flat_map(|section| section.keys.iter().map(|(key, _)| format!("{}.{key}", section.name)));
    let mut ours: Vec<String> = keys.collect();
    documented.sort_unstable();
    ours.sort_unstable();
    assert_eq!(documented, ours);
}

#[test]
fn users_of_the_broker_are_bound_by_rules_that_make_sense() {
    let rules = |file: &str| load(file, &[], None).unwrap().broker.submit_rules;
    assert_eq!(rules("[broker]\nprefix = \"p\""), None);
    assert!(rules("[submit.rules]").unwrap().is_empty(), "nobody may submit");
    let file = "[submit.rules.App-1]\nkinds = [\"invoice-*\"]\ntenants = [\"acme\"]\n[submit.rules.other]";
    let two = rules(file).unwrap();
    let names: Vec<_> = two.keys().map(String::as_str).collect();
    assert_eq!(names, ["App-1", "other"]);
    assert_eq!(two["App-1"].kinds.as_deref(), Some(["invoice-*".to_owned()].as_slice()));
    assert_eq!((&two["App-1"].queues, two["other"].kinds.is_none()), (&None, true));
    let more = load(file, &[("JOBWRIGHT_SUBMIT_RULES_APP_1_QUEUES", "[\"billing\"]")], None).unwrap();
    assert_eq!(more.broker.submit_rules.unwrap()["App-1"].queues.as_deref(), Some(["billing".to_owned()].as_slice()));
    for (file, meant) in [
        ("[submit.rules.a]\nkinds = []", "allows nothing"),
        ("[submit.rules.a]\ngroups = []", "leave it out to allow none"),
        ("[submit.rules.a]\nmax_priority = 99999", "99999 is not 0 to 32767"),
        ("[submit.rules.a]\nkinds = [\"a*b\"]", "a * at their end"),
        ("[submit.rules.a]\nqueues = [\"\"]", "a * at their end"),
        ("[submit.rules.\"\"]\nqueues = [\"q\"]", "name the user"),
        ("[submit.rules.a]\nkind = [\"x\"]", "did you mean `submit.rules.a.kinds`"),
        ("[submit.rule.a]\nkinds = [\"x\"]", "did you mean `submit.rules`"),
        ("[submit]\nrules = 1", "is not a section"),
        ("submit = 1", "is not a section"),
    ] {
        let text = refused(file, &[]);
        assert!(text.contains(meant), "{text:?} does not say {meant:?}");
    }
}

#[test]
fn the_broker_is_configured_like_the_database() {
    let file = "[broker]\nurl = \"amqp://file\"\nprefix = \"p\"\nqueue_type = \"classic\"\ndepth = 9\nrequired = true\n\
                declare = false\nintake = false\ndirect_reply = true\nreport_tokens = false\nreply_to = [\"answers.*\"]\n\
                connect_timeout = \"1s\"\nconfirm_timeout = \"2s\"\nheartbeat = \"3s\"";
    let url = |environment: &[(&str, &str)]| {
        let settings = load(file, environment, None).unwrap();
        settings.broker.url.unwrap().expose().to_owned()
    };
    assert_eq!(url(&[]), "amqp://file");
    assert_eq!(url(&[("AMQP_URL", "amqp://env")]), "amqp://env");
    assert_eq!(url(&[("AMQP_URL", "amqp://env"), ("JOBWRIGHT_BROKER_URL", "amqp://own")]), "amqp://own");
    let broker = load(file, &[("JOBWRIGHT_BROKER_DEPTH", "8")], None).unwrap().broker;
    assert_eq!((broker.prefix.as_str(), broker.depth, broker.queue_type.as_str()), ("p", 8, "classic"));
    assert_eq!((broker.required, broker.declare, broker.intake), (true, false, false));
    assert!(!broker.report_tokens && load("", &[], None).unwrap().broker.report_tokens);
    assert_eq!((broker.direct_reply, broker.reply_to), (true, Some(vec!["answers.*".to_owned()])));
    let seconds = [broker.connect_timeout, broker.confirm_timeout, broker.heartbeat].map(|limit| limit.as_secs());
    assert_eq!(seconds, [1, 2, 3]);
    for (file, meant) in [
        ("[broker]\ndepth = 0", "use 1 to 1000000"),
        ("[broker]\nqueue_type = \"hunter2\"", "\"quorum\" or \"classic\""),
        ("[queues.q]\nexternal = true\nconcurrency = 1", "both `concurrency` and `external = true`"),
        ("[queues.q]\ndepth = 5", "`external = true` only"),
    ] {
        let text = refused(file, &[]);
        assert!(text.contains(meant) && !text.contains("hunter2"), "{text:?} does not say {meant:?}");
    }
}

#[test]
fn external_queues_are_not_run_here() {
    let file = "[queues.a]\n[queues.x]\nexternal = true\nlease = \"2m\"\ndepth = 7";
    let settings = load(file, &[], None).unwrap();
    assert_eq!(settings.own_queues(), ["a"]);
    let external: Vec<_> = settings.external_queues().cloned().collect();
    assert_eq!(external, [ExternalQueue::new("x").lease(Duration::from_secs(120)).depth(7)]);
    assert_eq!(load("", &[], None).unwrap().own_queues(), ["default"]);
}

#[test]
fn variables_of_kubernetes_are_nobodys_mistake() {
    let pod = [
        ("JOBWRIGHT_SERVICE_HOST", "10.0.0.1"),
        ("JOBWRIGHT_SERVICE_PORT", "80"),
        ("JOBWRIGHT_SERVICE_PORT_HTTP", "80"),
        ("JOBWRIGHT_PORT", "tcp://10.0.0.1:80"),
        ("JOBWRIGHT_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("JOBWRIGHT_WORKER_SERVICE_HOST", "10.0.0.2"),
        ("JOBWRIGHT_WORKER_PORT_80_TCP_PROTO", "tcp"),
    ];
    load("", &pod, None).unwrap();
    for mistake in ["JOBWRIGHT_EXECUTOR_LEESE", "JOBWRIGHT_IMPORT", "JOBWRIGHT_SERVICES_HOST"] {
        assert!(refused("", &[(mistake, "1s")]).contains("unknown variable"), "{mistake}");
    }
}

/// Otherwise it would send into a file that no worker reads.
#[test]
fn a_program_without_its_workers_urls_uses_no_other_database() {
    let inside = [("JOBWRIGHT_URLS_WITHHELD", "1"), ("JOBWRIGHT_JOB_ID", "x")];
    assert!(refused("", &inside).contains("pass_urls"));
    load("[database]\nurl = \"sqlite:own.db\"", &inside, None).unwrap();
    load("", &inside, Some("sqlite:flag.db")).unwrap();
}

/// Variables have no `-` and no lower-case letters.
#[test]
fn the_key_that_seals_may_have_any_id_though_both_come_from_the_environment() {
    let key = ("JOBWRIGHT_SEAL_KEYS_2026_11_SECRET", KEY);
    load("", &[key, ("JOBWRIGHT_SEAL_KEY", "2026-11")], None).unwrap();
    load("[seal]\nkey = \"2026-11\"", &[key], None).unwrap();
    // A key that only opens has its id from the file.
    let others = [("JOBWRIGHT_SEAL_KEY", "a"), ("JOBWRIGHT_SEAL_KEYS_A_SECRET", KEY), key];
    load("[seal_keys.2026-11]", &others, None).unwrap();
}

/// Otherwise it would store in plain what is to be sealed, or report that no key is configured.
#[test]
fn a_program_without_its_workers_keys_gets_an_error() {
    let inside = ("JOBWRIGHT_KEYS_WITHHELD", "1");
    for file in ["", "[seal]\nkey = \"a\"", "[seal]\nkey = \"a\"\n[seal_keys.a]"] {
        let text = refused(file, &[inside]);
        assert!(text.contains("keeps keys to itself") && text.contains("`[seal_keys.ID] file`"), "{text}");
    }
    load(&format!("[seal]\nkey = \"a\"\n[seal_keys.a]\nsecret = \"{KEY}\""), &[inside], None).unwrap();
}
