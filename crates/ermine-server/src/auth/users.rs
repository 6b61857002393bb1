//! Who may log in.
//!
//! For now a file beside the database: a line `secret` with what hides which users there are, and a line for each user, its verifier and
//! its name. It is read whenever a client logs in, so that a new user needs no restart.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ring::rand::{SecureRandom, SystemRandom};

use super::Verifier;

/// Where users are kept.
pub trait UserStore: Send + Sync + 'static {
    /// Whether there are none.
    fn is_empty(&self) -> io::Result<bool>;

    /// What is stored of a user's password.
    fn verifier(&self, user: &str) -> io::Result<Option<Verifier>>;

    /// Bytes that stay, from which the salts of users are made that are not there.
    fn secret(&self) -> io::Result<Vec<u8>>;
}

/// Users in a file.
pub struct UserFile(PathBuf);

#[derive(Default)]
struct Users {
    secret: Vec<u8>,
    users: Vec<(String, Verifier)>,
}

impl UserFile {
    /// The file of the database in `directory`; it need not be there.
    pub fn of(directory: &Path) -> Self {
        Self(directory.join("users"))
    }

    /// Adds a user, or gives it another password. Whether it is new.
    pub fn set(&self, user: &str, verifier: Verifier) -> io::Result<bool> {
        if user.is_empty() || user.contains(['\n', '\r', '\0']) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this cannot be a user's name"));
        }
        let mut users = self.read()?;
        if users.secret.is_empty() {
            users.secret = vec![0; 32];
            SystemRandom::new().fill(&mut users.secret).map_err(|_| io::Error::other("no random bytes"))?;
        }
        let known = users.users.iter_mut().find(|(name, _)| name == user);
        let is_new = known.is_none();
        match known {
            Some((_, known)) => *known = verifier,
            None => users.users.push((user.to_owned(), verifier)),
        }
        self.write(&users)?;
        Ok(is_new)
    }

    fn read(&self) -> io::Result<Users> {
        let text = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Users::default()),
            text => text?,
        };
        let mut users = Users::default();
        for (index, line) in text.lines().enumerate() {
            let damaged = || {
                let place = format!("{}, line {}: neither a secret nor a user", self.0.display(), index + 1);
                io::Error::new(io::ErrorKind::InvalidData, place)
            };
            match line.split_once(' ').ok_or_else(damaged)? {
                ("secret", secret) => users.secret = BASE64.decode(secret).map_err(|_| damaged())?,
                (verifier, name) => users.users.push((name.to_owned(), verifier.parse().map_err(|_| damaged())?)),
            }
        }
        Ok(users)
    }

    /// Either all of it is there afterwards or what was there before.
    fn write(&self, users: &Users) -> io::Result<()> {
        let new = self.0.with_extension("new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&new)?;
        writeln!(file, "secret {}", BASE64.encode(&users.secret))?;
        for (name, verifier) in &users.users {
            writeln!(file, "{verifier} {name}")?;
        }
        file.sync_all()?;
        fs::rename(&new, &self.0)?;
        self.0.parent().map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
    }
}

impl UserStore for UserFile {
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.read()?.users.is_empty())
    }

    fn verifier(&self, user: &str) -> io::Result<Option<Verifier>> {
        Ok(self.read()?.users.into_iter().find(|(name, _)| name == user).map(|(_, verifier)| verifier))
    }

    fn secret(&self) -> io::Result<Vec<u8>> {
        Ok(self.read()?.secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_again() {
        let directory = std::env::temp_dir().join(format!("ermine-users-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let file = UserFile::of(&directory);
        assert!(file.is_empty().unwrap());
        let (first, second) = (Verifier::of("a"), Verifier::of("b"));
        assert!(file.set("eva maria", first.clone()).unwrap());
        let secret = file.secret().unwrap();
        assert!(file.set("adam", first).unwrap());
        assert!(!file.set("eva maria", second.clone()).unwrap());
        assert_eq!(file.verifier("eva maria").unwrap(), Some(second));
        assert_eq!((file.verifier("eva").unwrap(), file.secret().unwrap()), (None, secret));
        assert!(file.set("a\nb", Verifier::of("c")).is_err());
        fs::write(directory.join("users"), "rubbish\n").unwrap();
        assert!(file.is_empty().is_err());
        fs::remove_dir_all(directory).unwrap();
    }
}
