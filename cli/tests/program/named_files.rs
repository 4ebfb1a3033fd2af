//! The files that a configuration or a URL names, and the configuration that lies in the current directory.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;

use crate::common::{Done, Sandbox, jobwright};

const TOML: &str = "[database]\nurl = \"sqlite:jobs.db\"\n[handlers.x]\ncommand = [\"true\"]\n";

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Runs the program in the sandbox's directory, with no settings but those of the file there.
fn there(sandbox: &Sandbox, args: &[&str]) -> Done {
    Done::from(jobwright().args(args).current_dir(sandbox.path()).output().unwrap())
}

fn pipe(sandbox: &Sandbox, name: &str) {
    assert!(Command::new("mkfifo").arg(sandbox.file(name)).status().unwrap().success());
}

/// Whoever wrote the file would decide which programs run.
#[test]
fn a_configuration_that_others_may_write_is_used_only_if_it_is_named() {
    let sandbox = Sandbox::sqlite();
    let file = sandbox.file("jobwright.toml");
    std::fs::write(&file, TOML).unwrap();
    set_mode(&file, 0o644);
    there(&sandbox, &["status"]).success();
    set_mode(&file, 0o666);
    let refused = |why: &str| {
        for command in [&["status"][..], &["send", "x"], &["worker", "--drain"], &["migrate"]] {
            there(&sandbox, command).code(2).says(why).says("--config jobwright.toml");
        }
        assert!(there(&sandbox, &["doctor"]).code(1).stdout.contains(why));
        there(&sandbox, &["--config", "jobwright.toml", "worker", "--drain"]).success();
    };
    refused("everybody on this machine may write it");
    let doctor = there(&sandbox, &["--config", "jobwright.toml", "doctor"]).success().stdout;
    assert!(doctor.contains("others may write jobwright.toml"), "{doctor}");
    set_mode(&file, 0o644);
    set_mode(sandbox.path(), 0o777);
    refused("everybody on this machine may write its directory");
    set_mode(sandbox.path(), 0o1777);
    there(&sandbox, &["worker", "--drain"]).success();
    set_mode(sandbox.path(), 0o755);
    // Only root can give a file away, so for another user this proves nothing.
    if chown(&file, Some(65_534), None).is_ok() {
        refused("it belongs to");
        chown(&file, Some(0), None).unwrap();
    }
    there(&sandbox, &["worker", "--drain"]).success();
    let doctor = there(&sandbox, &["doctor"]).success().stdout;
    assert!(!doctor.contains("others may write"), "{doctor}");
}

#[test]
fn the_doctor_names_files_that_others_may_write() {
    let sandbox = Sandbox::sqlite();
    std::fs::write(sandbox.file("program"), "#!/bin/sh\n").unwrap();
    std::fs::write(sandbox.file("a.key"), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    sandbox
        .configure("[handlers.x]\ncommand = [\"./program\"]\n[seal]\nkey = \"a\"\n[seal_keys.a]\nfile = \"a.key\"\n");
    let files = ["program", "a.key", "jobs.db"];
    set_mode(&sandbox.file("program"), 0o755);
    set_mode(&sandbox.file("a.key"), 0o600);
    let doctor = || sandbox.run(&["doctor"]).stdout;
    assert!(!doctor().contains("others may write"), "{}", doctor());
    for file in files {
        let mode = std::fs::metadata(sandbox.file(file)).unwrap().permissions().mode();
        set_mode(&sandbox.file(file), mode | 0o002);
        let said = doctor();
        let found = said.lines().find(|line| line.contains("others may write")).unwrap_or_else(|| panic!("{said}"));
        assert!(found.contains(file), "{said}");
        set_mode(&sandbox.file(file), mode);
    }
}

/// Reading a device never ends, and opening a pipe waits for its writer.
#[test]
fn only_ordinary_files_of_a_bounded_size_are_read() {
    let sandbox = Sandbox::sqlite();
    pipe(&sandbox, "pipe");
    std::fs::write(sandbox.file("large"), vec![b'#'; 1024 * 1024 + 1]).unwrap();
    std::fs::write(sandbox.file("largest"), vec![b'#'; 1024 * 1024]).unwrap();
    symlink("pipe", sandbox.file("link")).unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=u"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(sandbox.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let bad = [
        ("/dev/zero", "no ordinary file"),
        ("pipe", "no ordinary file"),
        ("link", "no ordinary file"),
        (".", "a directory"),
        ("large", "larger than 1 MiB"),
    ];
    for (file, why) in bad {
        sandbox.run(&["--config", file, "status"]).code(2).says(why).says(file);
        for options in [
            format!("sslmode=verify-full&sslrootcert={file}"),
            format!("sslmode=require&sslkey=key.pem&sslcert={file}"),
            format!("sslmode=require&sslcert=cert.pem&sslkey={file}"),
        ] {
            let url = format!("postgres://u@127.0.0.1:1/d?{options}");
            sandbox
                .run(&["--database-url", &url, "status"])
                .code(2)
                .says(why)
                .says(&format!("the file {file} of `ssl"));
        }
        for options in [
            format!("cacertfile={file}"),
            format!("verify=verify_none&keyfile=key.pem&certfile={file}"),
            format!("verify=verify_none&certfile=cert.pem&keyfile={file}"),
        ] {
            let url = format!("amqps://u:p@127.0.0.1:1/%2f?{options}");
            sandbox
                .run(&["--amqp-url", &url, "broker", "check"])
                .code(2)
                .says(why)
                .says(&format!("the file {file} of `"));
        }
        sandbox.configure(&format!("[seal]\nkey = \"a\"\n[seal_keys.a]\nfile = \"{file}\"\n"));
        sandbox.run(&["status"]).code(2).says(why);
        std::fs::remove_file(sandbox.file("jobwright.toml")).unwrap();
    }
    // The certificates of the system are read by a library of others.
    let system = |args: &[&str]| {
        let done = sandbox.command(args).env("SSL_CERT_FILE", "pipe").output().unwrap();
        Done::from(done).code(2).says("the file pipe of `SSL_CERT_FILE`").says("no ordinary file");
    };
    system(&["--database-url", "postgres://u@127.0.0.1:1/d?sslmode=verify-full&sslrootcert=system", "status"]);
    system(&["--amqp-url", "amqps://u:p@127.0.0.1:1/%2f", "broker", "check"]);
    sandbox.configure("[handlers.x]\nurl = \"https://127.0.0.1:1/\"\n");
    system(&["worker", "--drain"]);
    std::fs::remove_file(sandbox.file("jobwright.toml")).unwrap();
    sandbox.run(&["--config", "largest", "status"]).success();
    // The file of the current directory may be a pipe, too.
    pipe(&sandbox, "jobwright.toml");
    sandbox.run(&["status"]).code(2).says("no ordinary file");
    std::fs::remove_file(sandbox.file("jobwright.toml")).unwrap();
    // A link that leads nowhere is not the same as no configuration.
    symlink("nowhere.toml", sandbox.file("jobwright.toml")).unwrap();
    sandbox.run(&["status"]).code(2).says("jobwright.toml can't be read");
}

/// Something that should have been inserted is missing: `DATABASE_URL="$UNSET"`. The default would be another database.
#[test]
fn an_empty_setting_is_no_default() {
    let sandbox = Sandbox::without_file();
    std::fs::write(sandbox.file("jobwright.toml"), "[handlers.x]\ncommand = [\"true\"]\n").unwrap();
    for variable in ["DATABASE_URL", "AMQP_URL", "JOBWRIGHT_DATABASE_URL", "JOBWRIGHT_BROKER_URL", "JOBWRIGHT_SEAL_KEY"]
    {
        for empty in ["", " ", "\n"] {
            for command in [&["worker", "--drain"][..], &["migrate"], &["status"]] {
                let mut command_line = sandbox.command(command);
                let done = command_line.env(variable, empty).output().unwrap();
                Done::from(done).code(2).says(&format!("{variable} is set but empty"));
            }
        }
    }
    for command in ["migrate", "demo"] {
        for flag in ["--database-url", "--amqp-url"] {
            sandbox.run(&[flag, "", command]).code(2).says(&format!("{flag} is empty"));
        }
        sandbox.run(&["--config", "", command]).code(2).says("--config");
    }
    std::fs::write(sandbox.file("jobwright.toml"), "[broker]\nurl = \"\"\n").unwrap();
    sandbox.run(&["migrate"]).code(2).says("`broker.url` in jobwright.toml can't be used: it is empty");
    std::fs::remove_file(sandbox.file("jobwright.toml")).unwrap();
    assert_eq!(std::fs::read_dir(sandbox.path()).unwrap().count(), 0, "nothing was created");
}
