//! `ermine sim` as a command: its output, the files it writes, and its exit codes.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn sim(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ermine"));
    let Output { status, stdout, stderr } = command.arg("sim").args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn schemes_are_compared_in_a_table() {
    let (code, out, _) = sim(&["run", "--transactions", "500"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("group 1: 30:8-12:25%, 500 transactions offered") && out.contains("\nRCL+SSN"), "{out}");
    let groups = ["--group", "10:8-12:100%", "--group", "10:100-200:0@500"];
    let (code, out, _) = sim(&[&["run", "--transactions", "100000", "--scheme", "si,si-ssn"][..], &groups].concat());
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("group 2: 10:100-200:0@500,") && out.contains("\n  group 2"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 95), "{out}");
    let (_, json, _) = sim(&["run", "--transactions", "500", "--scheme", "2pl", "--json", "-"]);
    assert!(json.starts_with('{') && json.contains("\"wait_depth\""), "{json}");
}

#[test]
fn figures_are_written_to_files() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures");
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).into_os_string().into_string().unwrap();
    let (csv, svg) = (path("6.csv"), path("6.svg"));
    let files = ["--csv", &csv, "--svg", &svg];
    let (code, out, _) =
        sim(&[&["figure", "6", "--quick", "--seeds", "2", "--transactions", "300"][..], &files].concat());
    assert_eq!(code, Some(0));
    assert!(out.contains("several versions\n") && out.contains("\nspread"), "{out}");
    let (csv, svg) = (fs::read_to_string(csv).unwrap(), fs::read_to_string(svg).unwrap());
    assert!(csv.starts_with("figure,panel,curve,x,mean,min,max\n6,single version,2PL,50,"), "{csv}");
    assert!(svg.starts_with("<svg") && svg.contains("RCL+SSN"));
}

#[test]
fn limits_of_hardware_transactions_are_drawn() {
    for (arguments, expected) in [
        (&["htm-size", "--ways", "8,512"][..], ["HTM figure 5: ", "8 ways  512 ways", "\n256"]),
        (&["htm-duration"], ["HTM figure 6: ", "independent  regular", "\n1000000"]),
    ] {
        let (code, out, _) = sim(&[arguments, &["--transactions", "200"]].concat());
        assert_eq!(code, Some(0), "{out}");
        assert!(expected.iter().all(|text| out.contains(text)), "{out}");
    }
}

#[test]
fn tpcc_is_recorded_and_simulated_on_cores() {
    let csv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cores.csv");
    let small = ["--warehouses", "4", "--scale", "small", "--transactions", "400", "--cores", "1,4"];
    let (code, out, error) = sim(&[&["cores", "--csv", csv.to_str().unwrap()][..], &small].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("TPC-C, 4 warehouses, 400 transactions recorded"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 95), "{out}");
    let csv = fs::read_to_string(csv).unwrap();
    let speedup = |scheme: &str, cores: u32| {
        let start = format!("Throughput,{scheme},{cores},");
        let line = csv.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("{csv}"));
        line.split(',').next().unwrap().parse::<f64>().unwrap()
    };
    for scheme in ["serial", "partitioned", "VLL", "2PL", "STO", "TSO", "Silo", "SI", "SI+SSN", "\"HTM, whole\""] {
        assert_eq!(speedup(scheme, 1), 1.0, "{csv}");
    }
    assert_eq!(speedup("serial", 4), 1.0);
    assert!(["partitioned", "VLL", "2PL", "SI+SSN"].iter().all(|scheme| speedup(scheme, 4) > 1.2), "{csv}");
}

#[test]
fn restarts_of_hardware_transactions_are_drawn() {
    let small = ["--warehouses", "2", "--scale", "small", "--transactions", "200", "--seeds", "1"];
    let (code, out, error) = sim(&[&["htm-restarts", "--cores", "1,4"][..], &small].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(
        out.contains("HTM figure 15: ") && out.contains("insert zones: 8\n   ") && out.contains("\nspread"),
        "{out}"
    );
}

#[test]
fn requests_that_cannot_work_are_refused() {
    for (arguments, reason) in [
        (&["run", "--records", "0"][..], "the number of records lies between"),
        (&["run", "--load", "0"], "the load lies between"),
        (&["run", "--scheme", "occ"], "there is no scheme \"occ\"; the simulator has 2pl,"),
        (&["run", "--scheme", "vll"], "vll only queues: use `ermine sim cores`"),
        (&["htm-size", "--ways", "7"], "ways that divide its lines"),
        (&["htm-duration", "--interval", "0"], "the time between two interrupts lies between"),
        (&["cores", "--cores", "0"], "0 is not in 1..=4096"),
        (&["run", "--group", "1:5:9"], "there are more writes than accesses"),
        (&["figure", "5"], "use 6, 7, 8 or 9"),
    ] {
        let (code, _, error) = sim(arguments);
        assert_eq!(code, Some(2), "{arguments:?}");
        assert!(error.contains(reason), "{error}");
    }
}
