//! Notifications over the wire.

use super::{
    Directory, Serving,
    raw::{Raw, bind, execute, parse, sync},
};

#[test]
fn clients_are_told_at_once_or_when_their_transaction_has_ended() {
    let directory = Directory::new("notifications");
    let serving = Serving::start(&directory.0, &[]);
    let (mut one, mut two) = (Raw::connect(serving.address), Raw::connect(serving.address));
    assert_eq!(one.query("LISTEN orders"), ["LISTEN", "ready Idle"]);
    two.query("NOTIFY orders, '17'");
    // The client is silent.
    let first = one.next().unwrap();
    assert!(super::raw::short(&first).starts_with("notification orders 17"), "{first:?}");
    assert_eq!(one.query("BEGIN"), ["BEGIN", "ready Transaction"]);
    two.query("BEGIN; NOTIFY orders, '18'; SELECT pg_notify('orders', '19'); COMMIT");
    assert_eq!(
        one.query("SELECT 1 AS one"),
        ["columns one", "row \\x00\\x00\\x00\\x011", "SELECT 1", "ready Transaction"]
    );
    assert_eq!(one.query("ROLLBACK"), ["ROLLBACK", "notification orders 18", "notification orders 19", "ready Idle"]);
    // A session hears itself, before it may go on.
    assert_eq!(one.query("NOTIFY orders"), ["NOTIFY", "notification orders ", "ready Idle"]);
    one.send(&[parse("", "SELECT pg_notify('orders', $1)"), bind("", "", &["20"]), execute("", 0), sync()]);
    let told = one.until_ready();
    assert_eq!(told[told.len() - 2..], ["notification orders 20", "ready Idle"]);
    assert_eq!(one.query("UNLISTEN *; NOTIFY orders"), ["UNLISTEN", "NOTIFY", "ready Idle"]);
}

#[test]
fn a_client_that_reads_nothing_stops_no_other() {
    let directory = Directory::new("slow-listener");
    let serving = Serving::start(&directory.0, &[]);
    let (mut slow, mut quick, mut sender) =
        (Raw::connect(serving.address), Raw::connect(serving.address), Raw::connect(serving.address));
    slow.query("LISTEN a");
    quick.query("LISTEN a");
    // More than the buffers of sockets hold.
    for round in 0..4 {
        sender.query("SELECT count(pg_notify('a', i || repeat('x', 7000))) FROM generate_series(1, 1000) AS i");
        for at in 0..1000 {
            let message = super::raw::short(&quick.next().unwrap());
            assert!(message.starts_with(&format!("notification a {}x", at + 1)), "{round}: {message}");
        }
    }
    assert_eq!(slow.next().map(|message| super::raw::short(&message).len()), Some("notification a 1".len() + 7000));
}
