//! A server under a supervisor: the messages of its states, and the examples of `contrib`.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
};

use super::process::{Directory, Serving, output};

#[test]
fn the_supervisor_is_told_of_every_state() {
    let directory = Directory::new("notify");
    let path = directory.0.join("notify.socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    let database = directory.0.join("db");
    let mut serving = Serving::start_with(&database, &[], &[("NOTIFY_SOCKET", &path)]);
    let next = || {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    assert_eq!(next(), "READY=1");
    serving.signal("HUP");
    let reloading = next();
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(time.parse::<u64>().unwrap() > 0);
    assert_eq!(next(), "READY=1");
    serving.signal("TERM");
    assert_eq!(next(), "STOPPING=1");
    assert!(serving.child.wait().unwrap().success());
}

#[test]
fn the_process_is_in_a_file_while_it_serves() {
    let directory = Directory::new("pid");
    let (database, file) = (directory.0.join("db"), directory.0.join("ermined.pid"));
    // That of a server that was killed.
    fs::write(&file, "1\nstale\n").unwrap();
    let mut serving = Serving::start_with(&database, &[], &[("ERMINED_PID_FILE", &file)]);
    let written = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = written.lines().collect();
    let (process, port) = (serving.child.id().to_string(), serving.address.port().to_string());
    assert_eq!(
        [lines[0], lines[1], lines[3], lines[4], lines[5]],
        [&*process, database.to_str().unwrap(), &port, "", "127.0.0.1"]
    );
    assert!(lines.len() == 6 && lines[2].parse::<u64>().unwrap() > 0, "{written}");
    serving.signal("TERM");
    assert!(serving.child.wait().unwrap().success());
    assert!(!file.exists() && fs::read_dir(&directory.0).unwrap().count() == 1);
    // One that another server has written meanwhile stays.
    let mut serving = Serving::start(&database, &["--pid-file", file.to_str().unwrap()]);
    assert!(fs::read_to_string(&file).unwrap().starts_with(&format!("{}\n", serving.child.id())));
    fs::write(&file, "1\n").unwrap();
    serving.signal("TERM");
    assert!(serving.child.wait().unwrap().success());
    assert_eq!(fs::read_to_string(&file).unwrap(), "1\n");
    // Where none can be written, nothing is served.
    let nowhere = directory.0.join("nowhere/ermined.pid");
    let arguments =
        ["serve", database.to_str().unwrap(), "--listen", "127.0.0.1:0", "--pid-file", nowhere.to_str().unwrap()];
    let (ended, text) = output(&arguments, "");
    let what = format!("the pid file {} cannot be written", nowhere.display());
    assert!(ended.status.code() == Some(1) && text.contains(&what), "{text}");
}

fn contrib(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Asks for the configuration of a command line of `ermined serve`.
fn show(arguments: &[&str]) {
    let [serve, rest @ ..] = arguments else { panic!("no arguments") };
    assert_eq!(*serve, "serve");
    let (ended, text) = output(&[&["config", "show"], rest].concat(), "");
    assert!(ended.status.success(), "{arguments:?}: {text}");
}

/// Every command line and file of the examples is understood by this version.
#[test]
fn examples_fit_the_server() {
    let unit = contrib("ermined.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/ermined ")).unwrap();
    show(&start.split(' ').collect::<Vec<_>>());
    let dockerfile = contrib("Dockerfile");
    let start = dockerfile.lines().find_map(|line| line.strip_prefix("CMD [")?.strip_suffix(']')).unwrap();
    show(&start.split(", ").map(|word| word.trim_matches('"')).collect::<Vec<_>>());
    for variable in dockerfile.lines().find_map(|line| line.strip_prefix("ENV ")).unwrap().split(' ') {
        let (name, value) = variable.split_once('=').unwrap();
        let key = name.strip_prefix("ERMINED_").unwrap().to_lowercase().replace('_', "-");
        show(&["serve", "d", &format!("--{key}"), value]);
    }
    let directory = Directory::new("chart");
    let values = contrib("helm/values.yaml");
    for (name, file) in [("config", "ermined.toml"), ("hba", "hba.conf")] {
        let (_, text) = values.split_once(&format!("\n{name}: |\n")).unwrap();
        let lines = text.lines().take_while(|line| line.is_empty() || line.starts_with("  "));
        let text: String = lines.map(|line| format!("{}\n", line.trim())).collect();
        fs::write(directory.0.join(file), text.replace("/etc/ermine", directory.path())).unwrap();
    }
    let config = directory.0.join("ermined.toml");
    let (ended, text) = output(&["config", "check", config.to_str().unwrap()], "");
    assert!(ended.status.success(), "{text}");
    let serving = Serving::start(Path::new(&directory.0.join("db")), &["--config", config.to_str().unwrap()]);
    drop(serving);
}
