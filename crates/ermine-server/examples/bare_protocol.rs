//! The PostgreSQL protocol and nothing behind it: a thread for each connection that answers every statement with the
//! same row of one text, "1". Its speed is the upper bound that client, kernel and protocol allow on a machine; a
//! server that executes statements is measured beside it.
//!
//! ```text
//! cargo run --release -p ermine-server --example bare_protocol -- 127.0.0.1:5433
//! echo 'SELECT abalance FROM pgbench_accounts WHERE aid = 1' >point.sql
//! pgbench -h 127.0.0.1 -p 5433 -U any -n -M prepared -f point.sql -T 5 any
//! ```

use std::{
    io::{BufReader, Read, Result, Write},
    net::{TcpListener, TcpStream},
    thread,
};

const PROTOCOL_3: [u8; 4] = [0, 3, 0, 0];
/// Longer messages are refused.
const LENGTH_MAX: usize = 1 << 20;

fn main() -> Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:5433".into());
    let listener = TcpListener::bind(&address)?;
    println!("the bare protocol is served on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            if let Err(error) = serve(stream) {
                eprintln!("a connection has ended: {error}");
            }
        });
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream.try_clone()?);
    let mut body = Vec::new();
    // Any other request before that, TLS for one, is refused.
    while {
        read_body(&mut input, &mut body)?;
        !body.starts_with(&PROTOCOL_3)
    } {
        stream.write_all(b"N")?;
    }
    let mut output = Vec::new();
    message(&mut output, b'R', &[0; 4]);
    message(&mut output, b'S', b"server_version\x0015.0\0");
    message(&mut output, b'S', b"client_encoding\0UTF8\0");
    message(&mut output, b'Z', b"I");
    stream.write_all(&output)?;
    output.clear();
    loop {
        let mut kind = [0];
        if input.read(&mut kind)? == 0 {
            return Ok(());
        }
        read_body(&mut input, &mut body)?;
        match kind[0] {
            b'P' => message(&mut output, b'1', &[]),
            b'B' => message(&mut output, b'2', &[]),
            b'C' => message(&mut output, b'3', &[]),
            b'D' => {
                if body.first() == Some(&b'S') {
                    message(&mut output, b't', &[0; 2]);
                }
                describe(&mut output);
            }
            b'E' => row(&mut output),
            b'Q' => {
                describe(&mut output);
                row(&mut output);
                message(&mut output, b'Z', b"I");
            }
            b'S' => message(&mut output, b'Z', b"I"),
            b'X' => return Ok(()),
            _ => {}
        }
        if matches!(kind[0], b'S' | b'Q' | b'H') {
            stream.write_all(&output)?;
            output.clear();
        }
    }
}

fn read_body(input: &mut impl Read, body: &mut Vec<u8>) -> Result<()> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = (u32::from_be_bytes(length) as usize).saturating_sub(4).min(LENGTH_MAX);
    body.resize(length, 0);
    input.read_exact(body)
}

fn message(output: &mut Vec<u8>, kind: u8, body: &[u8]) {
    output.push(kind);
    output.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    output.extend_from_slice(body);
}

/// One column: its name, then table, column, type (text), length, modifier and format.
fn describe(output: &mut Vec<u8>) {
    message(output, b'T', b"\0\x01value\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
}

fn row(output: &mut Vec<u8>) {
    message(output, b'D', b"\0\x01\0\0\0\x011");
    message(output, b'C', b"SELECT 1\0");
}
