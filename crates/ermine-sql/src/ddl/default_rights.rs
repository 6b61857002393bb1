//! ALTER DEFAULT PRIVILEGES: the rights that objects get when a role creates them.
//!
//! The default rights of a role are one record, which is stored as the rights of an object are: of two changes at the
//! same time one loses (40001), and a role that is named stays (`catalog/rights_store.rs`).

use sqlparser::{
    ast::Ident,
    keywords::Keyword,
    parser::{Parser, ParserError},
};

use super::{
    context::ChangeContext,
    grant::{apply_to, invalid},
    grant_tree::{GrantObjects, On, RightsTree, parse_role},
};
use crate::{
    bind::names::name_of,
    catalog::{
        Change,
        comments::PG_DEFAULT_ACL,
        default_rights::{DefaultRights, DefaultRightsDef, NewKind, are_same},
        definition::{Definition, Grant, ObjectId},
        rights::{EVERYONE, Rights},
    },
    error::{Result, SqlError, SqlState},
    transaction::ActiveTransaction,
};

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct DefaultRightsTree {
    /// The roles whose objects they are for; none: the current one.
    roles: Vec<Ident>,
    schemas: Vec<Ident>,
    kind: NewKind,
    grant: GrantObjects,
}

impl DefaultRightsTree {
    /// Parses what follows ALTER DEFAULT PRIVILEGES.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<RightsTree, ParserError> {
        use Keyword::{FOR, GRANT, IN, REVOKE, ROLE, SCHEMA, USER};
        let (mut roles, mut schemas) = (Vec::new(), Vec::new());
        loop {
            if parser.parse_keyword(FOR) {
                parser.expect_one_of_keywords(&[ROLE, USER])?;
                roles.extend(parser.parse_comma_separated(parse_role)?);
            } else if parser.parse_keywords(&[IN, SCHEMA]) {
                schemas.extend(parser.parse_comma_separated(Parser::parse_identifier)?);
            } else {
                break;
            }
        }
        let is_grant = parser.expect_one_of_keywords(&[GRANT, REVOKE])? == GRANT;
        let grant = match RightsTree::parse_grant(parser, is_grant)? {
            RightsTree::Objects(grant) => grant,
            RightsTree::Unsupported(what) => return Ok(RightsTree::Unsupported(what)),
            _ => return parser.expected_ref("ON and a kind of objects", parser.peek_token_ref()),
        };
        let word = match &grant.on {
            On::Tables(names) if names.len() == 1 => names[0].to_string().to_lowercase(),
            _ => String::new(),
        };
        if matches!(&*word, "functions" | "routines") {
            return Ok(RightsTree::Unsupported(format!("default rights to {}", word.to_uppercase())));
        }
        match NewKind::named(&word) {
            Some(kind) => Ok(RightsTree::Defaults(Self { roles, schemas, kind, grant })),
            None => parser.expected_ref("TABLES, SEQUENCES, TYPES or SCHEMAS", parser.peek_token_ref()),
        }
    }
}

impl ChangeContext<'_> {
    pub(super) fn alter_default_rights(&self, active: &mut ActiveTransaction, tree: &DefaultRightsTree) -> Result<()> {
        let DefaultRightsTree { roles, schemas, kind, grant } = tree;
        let wanted = default_rights(grant, *kind)?;
        let receivers = self.receivers(active, grant)?;
        if grant.is_grant && grant.option && receivers.contains(&EVERYONE) {
            return Err(invalid("grant options can only be granted to roles"));
        }
        if *kind == NewKind::Schemas && !schemas.is_empty() {
            return Err(invalid("cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS"));
        }
        let mut places = Vec::new();
        for schema in schemas {
            let name = name_of(schema);
            self.check_schema(active, &name)?;
            self.use_schema(active, &name)?;
            places.push(active.catalog.schema(&name).unwrap_or_default());
        }
        if places.is_empty() {
            places.push(0);
        }
        let owners: Vec<_> = match &roles[..] {
            [] => vec![self.environment.role],
            roles => roles.iter().map(|role| self.role_meant(active, role)).collect::<Result<_>>()?,
        };
        for owner in owners {
            if !active.catalog.has_role(self.environment.role, owner) {
                let name = active.catalog.role_name(owner, self.environment).unwrap_or_default();
                let message = format!("must be member of role \"{name}\"");
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            let mut def = self.default_rights_of(active, owner);
            for schema in &places {
                let known = def.entry(*schema, *kind).map(|entry| entry.granted.clone());
                let initial = if *schema == 0 { kind.kind().initial(owner) } else { Vec::new() };
                let mut granted = known.unwrap_or_else(|| initial.clone());
                apply_to(&mut granted, grant, &receivers, (owner, owner), wanted)?;
                def.entries.retain(|entry| (entry.schema, entry.kind) != (*schema, *kind));
                if !are_same(&granted, &initial) {
                    def.entries.push(DefaultRights { schema: *schema, kind: *kind, granted });
                }
            }
            self.put_default_rights(active, def)?;
        }
        Ok(())
    }

    fn default_rights_of(&self, active: &ActiveTransaction, role: ObjectId) -> DefaultRightsDef {
        let known = active.catalog.default_rights(role).map(|def| (**def).clone());
        known.unwrap_or(DefaultRightsDef { id: 0, role, entries: Vec::new() })
    }

    /// Stores the default rights of a role; without entries, none.
    fn put_default_rights(&self, active: &mut ActiveTransaction, mut def: DefaultRightsDef) -> Result<()> {
        let known = active.catalog.default_rights(def.role).map(|def| (**def).clone());
        let is_gone = def.entries.is_empty();
        if is_gone && known.is_none() {
            return Ok(());
        }
        def.entries.sort_by_key(|entry| (entry.schema, entry.kind));
        let new = if is_gone { None } else { Some(self.catalog_number()?) };
        let place = (PG_DEFAULT_ACL, def.role);
        self.store.take_rights(&active.txn, place, known.as_ref().map(|known| known.id), new)?;
        let named = def.entries.iter().flat_map(|entry| entry.granted.iter().map(|grant| grant.role));
        self.use_roles(active, named.chain([def.role]))?;
        let old = known.map(|known| Change::Drop(Definition::DefaultRights(known)));
        let new = new.map(|id| Change::Put(Definition::DefaultRights(DefaultRightsDef { id, ..def })));
        self.apply(active, old.into_iter().chain(new).collect())
    }

    /// Removes the default rights in schemas that the statement has removed.
    pub(super) fn drop_default_rights(&self, active: &mut ActiveTransaction) -> Result<()> {
        let exists = |schema: ObjectId| schema == 0 || active.catalog.schemas().any(|(_, id)| id == schema);
        let has_gone = |def: &DefaultRightsDef| def.entries.iter().any(|entry| !exists(entry.schema));
        let concerned: Vec<_> = active.catalog.all_default_rights().filter(|def| has_gone(def)).cloned().collect();
        for def in concerned {
            let mut def = (*def).clone();
            let exists = |schema: ObjectId| schema == 0 || active.catalog.schemas().any(|(_, id)| id == schema);
            def.entries.retain(|entry| exists(entry.schema));
            self.put_default_rights(active, def)?;
        }
        Ok(())
    }

    /// Removes the default rights of a role, and those that other roles' objects give it.
    pub(super) fn drop_default_rights_of(&self, active: &mut ActiveTransaction, role: ObjectId) -> Result<()> {
        let is_concerned = |def: &DefaultRightsDef| def.role == role || def.names(role);
        let concerned: Vec<_> = active.catalog.all_default_rights().filter(|def| is_concerned(def)).cloned().collect();
        for def in concerned {
            let mut def = (*def).clone();
            if def.role == role {
                def.entries.clear();
            }
            let owner = def.role;
            for entry in &mut def.entries {
                entry.granted.retain(|grant| grant.role != role);
            }
            def.entries.retain(|entry| match entry.schema {
                0 => !are_same(&entry.granted, &entry.kind.kind().initial(owner)),
                _ => !entry.granted.is_empty(),
            });
            self.put_default_rights(active, def)?;
        }
        Ok(())
    }

    /// Returns in words the default rights of a role, and those that name it.
    pub(super) fn default_rights_in_words(&self, active: &ActiveTransaction, role: ObjectId) -> Vec<String> {
        let mut uses = Vec::new();
        for def in active.catalog.all_default_rights() {
            let owner = active.catalog.role_name(def.role, self.environment).unwrap_or_default();
            for entry in &def.entries {
                let names_it = |grant: &Grant| grant.role == role;
                let first = match () {
                    () if def.role == role => "owner of",
                    () if entry.granted.iter().any(names_it) => "privileges for",
                    () => continue,
                };
                let schema = active.catalog.schemas().find(|(_, id)| *id == entry.schema);
                let schema = schema.map_or_else(String::new, |(name, _)| format!(" in schema {name}"));
                let kind = entry.kind.words();
                uses.push(format!("{first} default privileges on new {kind} belonging to role {owner}{schema}"));
            }
        }
        uses
    }
}

/// Returns the rights of the statement.
fn default_rights(grant: &GrantObjects, kind: NewKind) -> Result<Rights> {
    if grant.rights.is_empty() {
        return Ok(kind.kind().all());
    }
    let mut wanted = Rights::NONE;
    for (word, columns) in &grant.rights {
        if !columns.is_empty() {
            return Err(invalid("default privileges cannot be set for columns"));
        }
        let right = match Rights::named(word) {
            Some(right) => right,
            None if matches!(&**word, "execute" | "set" | "alter") => Rights::NONE,
            None => {
                let message = format!("unrecognized privilege type \"{word}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        if right.is_empty() || !kind.kind().all().has(right) {
            let message = format!("invalid privilege type {} for {}", word.to_uppercase(), kind.kind().word());
            return Err(invalid(message));
        }
        wanted = wanted | right;
    }
    Ok(wanted)
}
