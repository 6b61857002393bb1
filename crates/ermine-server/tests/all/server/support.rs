//! A server for a test, in a runtime of its own.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ermine_server::{
    options::ServerOptions,
    server::{Control, Server},
    tls::Tls,
};

use super::fake::{Counts, Fake};

pub struct Running {
    pub address: SocketAddr,
    pub control: Control,
    pub counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

pub fn options() -> ServerOptions {
    let mut options = ServerOptions::default();
    options.trust = true;
    options.fixed.threads = Some(4);
    options.connections_reserved = 0;
    options.refusal_delay = Duration::from_millis(1);
    options
}

pub fn start() -> Running {
    start_with(Fake::default(), options())
}

pub fn start_with(backend: Fake, options: ServerOptions) -> Running {
    start_secured(backend, options, None)
}

pub fn start_secured(backend: Fake, options: ServerOptions, tls: Option<Tls>) -> Running {
    let counts = backend.counts.clone();
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        let runtime = options.runtime().unwrap();
        runtime.block_on(async {
            let address = "127.0.0.1:0".parse().unwrap();
            let server = Server::listen(backend, options, tls, &[address]).unwrap();
            sender.send((server.addresses().unwrap()[0], server.control())).unwrap();
            server.run().await;
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
    });
    let (address, control) = receiver.recv().unwrap();
    Running { address, control, counts, thread: Some(thread) }
}

impl Running {
    pub fn config(&self) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(self.address.port()).user("eva").dbname("fake");
        config
    }

    pub async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) = self.config().connect(tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Waits until the server has ended.
    pub fn join(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }

    /// Waits until there are `count` sessions.
    pub fn wait_for_sessions(&self, count: usize) {
        let began = Instant::now();
        while self.control.sessions() != count {
            assert!(began.elapsed() < Duration::from_secs(600), "{} sessions", self.control.sessions());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.control.end();
            self.control.end();
            let _ = thread.join();
        }
    }
}
