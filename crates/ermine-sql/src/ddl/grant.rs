//! GRANT and REVOKE, of rights to objects and of roles. The rules, with their messages, are PostgreSQL's.

use sqlparser::ast::{Ident, ObjectName};

use super::{
    context::ChangeContext,
    grant_tree::{GrantObjects, GrantRoles, On, RightsTree},
};
use crate::{
    bind::{
        names::{name_of, simple_name},
        plain,
    },
    catalog::{
        Relation,
        definition::{Grant, Membership, ObjectId, RightsDef},
        grants::{Delta, Granting},
        rights::{EVERYONE, Kind, Object, Rights, check_usage, no_right},
        roles::DATABASE_OWNER,
    },
    error::{Result, SqlError, SqlState},
    result::RowSink,
    transaction::{ActiveTransaction, changed},
};

/// The rights of a statement to one object.
struct Wanted {
    object: Object,
    /// Its kind and its name in messages.
    name: (&'static str, String),
    rights: Rights,
    /// Whether the statement says ALL.
    is_all: bool,
    /// Rights to columns, and whether they are all that columns have.
    columns: Vec<(usize, Rights, bool)>,
}

const INVALID_GRANT: SqlState = SqlState("0LP01");

pub(super) fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(INVALID_GRANT, message)
}

impl ChangeContext<'_> {
    pub(super) fn change_rights(
        &self,
        active: &mut ActiveTransaction,
        tree: &RightsTree,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        match tree {
            RightsTree::Objects(grant) => self.grant_objects(active, grant, rows)?,
            RightsTree::Roles(grant) => self.grant_roles(active, grant, rows)?,
            RightsTree::Defaults(tree) => self.alter_default_rights(active, tree)?,
            RightsTree::Unsupported(what) => return Err(SqlError::unsupported(what)),
            other => self.change_owned(active, other, rows)?,
        }
        Ok(tree.words().into())
    }

    fn grant_objects(
        &self,
        active: &mut ActiveTransaction,
        grant: &GrantObjects,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let roles = self.receivers(active, grant)?;
        if let Some(by) = &grant.granted_by
            && self.role_meant(active, by)? != self.environment.role
        {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "grantor must be current user"));
        }
        for wanted in self.wanted(active, grant, rows)? {
            self.grant_one(active, grant, &wanted, &roles, rows)?;
        }
        Ok(())
    }

    /// Returns the roles that get rights, or lose them.
    pub(super) fn receivers(&self, active: &ActiveTransaction, grant: &GrantObjects) -> Result<Vec<ObjectId>> {
        let roles = grant.roles.iter().map(|role| match &*name_of(role) {
            "public" if role.quote_style.is_none() => Ok(EVERYONE),
            _ => self.role_meant(active, role),
        });
        roles.collect()
    }

    /// Returns the objects of the statement, with the rights to them.
    fn wanted(
        &self,
        active: &mut ActiveTransaction,
        grant: &GrantObjects,
        rows: &mut dyn RowSink,
    ) -> Result<Vec<Wanted>> {
        let mut all = Vec::new();
        let mut add = |object, name| -> Result<()> {
            all.push(Wanted { object, name, rights: Rights::NONE, is_all: false, columns: Vec::new() });
            Ok(())
        };
        match &grant.on {
            On::Tables(names) | On::Sequences(names) => {
                for name in names {
                    let relation = self.granted_relation(active, name, matches!(grant.on, On::Sequences(_)))?;
                    let object = Object::of(&relation);
                    add(object, active.catalog.described(object))?;
                }
            }
            On::AllTables(schemas) | On::AllSequences(schemas) => {
                for schema in schemas {
                    let schema = simple_name(schema)?;
                    self.check_schema(active, &schema)?;
                    check_usage(&active.catalog, self.environment.role, &schema)?;
                    let catalog = active.catalog.clone();
                    let is_in = |object: &Object| catalog.schema_of(*object).as_ref() == Some(&schema);
                    let tables = catalog.tables().into_iter().map(|table| Object::new(Kind::Table, table.def.id));
                    let views = catalog.plain_views().map(|view| Object::new(Kind::Table, view.def.id));
                    let sequences = catalog.sequences().into_iter();
                    let sequences = sequences.map(|sequence| Object::new(Kind::Sequence, sequence.def.id));
                    let objects: Vec<_> = match grant.on {
                        On::AllTables(_) => tables.chain(views).filter(is_in).collect(),
                        _ => sequences.filter(is_in).collect(),
                    };
                    objects.into_iter().try_for_each(|object| add(object, catalog.described(object)))?;
                }
            }
            On::Databases(names) => {
                for name in names {
                    let name = simple_name(name)?;
                    let number = self.database_named(active, &name)?;
                    add(Object::new(Kind::Database, number), ("database", name))?;
                }
            }
            On::Schemas(names) => {
                for name in names {
                    let name = simple_name(name)?;
                    self.check_schema(active, &name)?;
                    self.use_schema(active, &name)?;
                    let id = active.catalog.schema(&name).unwrap_or_default();
                    add(Object::new(Kind::Schema, id), ("schema", name))?;
                }
            }
            On::Types(names, word) => {
                for name in names {
                    let ty = self.type_named(active, name)?.ok_or_else(|| super::types::missing(name))?;
                    if *word == "domain" && ty.domain().is_none() {
                        return Err(super::domain::not_a_domain(name));
                    }
                    self.check_type(active, &ty)?;
                    add(Object::new(Kind::Type, ty.oid), ("type", ty.name.clone()))?;
                }
            }
        }
        for wanted in &mut all {
            self.want(active, grant, wanted, rows)?;
        }
        Ok(all)
    }

    /// Returns the relation of a GRANT; it stays until the transaction ends.
    fn granted_relation(
        &self,
        active: &mut ActiveTransaction,
        name: &ObjectName,
        is_sequence: bool,
    ) -> Result<Relation> {
        let missing =
            || SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", plain(name)));
        let relation = self.find(active, name)?.ok_or_else(missing)?;
        let own = crate::bind::names::relation_of(name)?.1;
        let wrong = |message: String| Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        match &relation {
            Relation::Index(..) => return wrong(format!("\"{own}\" is an index")),
            Relation::Table(_) | Relation::View(_) if is_sequence => {
                return wrong(format!("\"{own}\" is not a sequence"));
            }
            Relation::Table(table) => {
                if !active.share(std::slice::from_ref(table), self.limits())? {
                    return Err(changed(table.name()));
                }
            }
            Relation::View(view) => {
                if !active.share_views(std::slice::from_ref(view), self.limits())? {
                    return Err(changed(&view.def.name));
                }
            }
            Relation::Sequence(sequence) => self.check_sequence(active, &sequence.def)?,
        }
        Ok(relation)
    }

    /// Reads the rights of the statement, as far as an object of its kind has them.
    fn want(
        &self,
        active: &ActiveTransaction,
        grant: &GrantObjects,
        wanted: &mut Wanted,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let kind = wanted.object.kind;
        if grant.rights.is_empty() {
            (wanted.rights, wanted.is_all) = (kind.all(), true);
            return Ok(());
        }
        // GRANT .. ON a name means relations of both kinds.
        let is_general = matches!(grant.on, On::Tables(_) | On::AllTables(_));
        for (word, columns) in &grant.rights {
            let is_all = word == "all";
            let right = match Rights::named(word) {
                Some(right) => right,
                None if is_all => Kind::Column.all(),
                None if matches!(&**word, "execute" | "set" | "alter") => Rights::NONE,
                None => {
                    let message = format!("unrecognized privilege type \"{word}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
            let shown = word.to_uppercase();
            if columns.is_empty() {
                let known = if is_general { Kind::Table.all() | Kind::Sequence.all() } else { kind.all() };
                if right.is_empty() || !known.has(right) {
                    let of = if is_general { Kind::Table } else { kind };
                    return Err(invalid(format!("invalid privilege type {shown} for {}", of.word())));
                }
                if is_general && kind == Kind::Table && !kind.all().has(right) {
                    return Err(invalid(format!("invalid privilege type {shown} for table")));
                }
                wanted.rights = wanted.rights | right;
                continue;
            }
            if !is_general || kind != Kind::Table {
                return Err(invalid("column privileges are only valid for relations"));
            }
            if !Kind::Column.all().has(right) || right.is_empty() {
                return Err(invalid(format!("invalid privilege type {shown} for column")));
            }
            for column in columns {
                let at = self.column_of(active, wanted, column)?;
                match wanted.columns.iter_mut().find(|(own, ..)| *own == at) {
                    Some((_, rights, every)) => (*rights, *every) = (*rights | right, *every || is_all),
                    None => wanted.columns.push((at, right, is_all)),
                }
            }
        }
        if kind == Kind::Sequence && !kind.all().has(wanted.rights) {
            // As PostgreSQL, for programs that are older than rights of sequences.
            let message = format!("sequence \"{}\" only supports USAGE, SELECT, and UPDATE privileges", wanted.name.1);
            rows.notice("WARNING", &SqlError::new(INVALID_GRANT, message));
            wanted.rights = wanted.rights & kind.all();
        }
        Ok(())
    }

    fn column_of(&self, active: &ActiveTransaction, wanted: &Wanted, column: &Ident) -> Result<usize> {
        let (name, id) = (name_of(column), wanted.object.id);
        let found = match (active.catalog.table(id), active.catalog.view(id)) {
            (Some(table), _) => table.def.column(&name),
            (None, Some(view)) => view.def.columns.iter().position(|own| own.name == name),
            (None, None) => None,
        };
        found.ok_or_else(|| super::alter::missing(&name, &wanted.name.1))
    }

    /// Grants or revokes rights to one object.
    fn grant_one(
        &self,
        active: &mut ActiveTransaction,
        grant: &GrantObjects,
        wanted: &Wanted,
        roles: &[ObjectId],
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        if grant.is_grant && grant.option && roles.contains(&EVERYONE) {
            return Err(invalid("grant options can only be granted to roles"));
        }
        let object = wanted.object;
        let mut stored = self.rights_of(active, object);
        let owner = stored.owner;
        let before = active.catalog.granted(object).into_owned();
        let name = format!("\"{}\"", wanted.name.1);
        if !wanted.rights.is_empty() {
            let (grantor, may) = self.grantor(active, &before, owner, wanted.rights);
            let whole = object.kind.all();
            let held = active.catalog.held_of(self.environment.role, &before, owner);
            if (may & whole).is_empty() && ((held.0 | held.1) & whole).is_empty() {
                return Err(no_right(&active.catalog, object));
            }
            let rights = self.restricted(grant, (wanted.rights, wanted.is_all), may, &name, rows);
            let mut list = before.clone();
            apply_to(&mut list, grant, roles, (owner, grantor), rights)?;
            if !grant.is_grant {
                // Rights to columns go with those to the table.
                for (_, columns) in &mut stored.columns {
                    apply_to(columns, grant, roles, (owner, grantor), rights & Kind::Column.all())?;
                }
            }
            stored.granted = Some(list);
        }
        for (at, rights, is_all) in &wanted.columns {
            let own = active.catalog.granted_of_column(object.id, *at).to_vec();
            let both: Vec<Grant> = before.iter().chain(&own).copied().collect();
            let (grantor, may) = self.grantor(active, &both, owner, *rights);
            let held = active.catalog.held_of(self.environment.role, &both, owner);
            if (may & Kind::Column.all()).is_empty() && ((held.0 | held.1) & Kind::Column.all()).is_empty() {
                return Err(no_right(&active.catalog, object));
            }
            let column = column_name(active, object, *at);
            let name = format!("column \"{column}\" of relation {name}");
            let rights = self.restricted(grant, (*rights, *is_all), may, &name, rows);
            let list = match stored.columns.iter_mut().find(|(own, _)| own == at) {
                Some((_, list)) => list,
                None => {
                    stored.columns.push((*at, Vec::new()));
                    &mut stored.columns.last_mut().expect("it has just been put there").1
                }
            };
            apply_to(list, grant, roles, (owner, grantor), rights)?;
        }
        stored.columns.retain(|(_, list)| !list.is_empty());
        stored.columns.sort_by_key(|(at, _)| *at);
        self.put_rights(active, object, RightsDef { object: object.id, ..stored })
    }

    /// Returns the role that grants rights for the current one, and those that it may grant: the owner, or the one of
    /// its roles that may grant most.
    fn grantor(
        &self,
        active: &ActiveTransaction,
        granted: &[Grant],
        owner: ObjectId,
        wanted: Rights,
    ) -> (ObjectId, Rights) {
        let role = self.environment.role;
        if active.catalog.has_role(role, owner) {
            return (owner, !Rights::NONE);
        }
        let options = |of: ObjectId| {
            let own = granted.iter().filter(|grant| grant.role == of);
            own.fold(Rights::NONE, |all, grant| all | grant.options) & wanted
        };
        let others = active.catalog.roles_of(role, true).into_iter().filter(|other| *other != role);
        let mut best = (role, options(role));
        for other in others {
            if best.1 != wanted && options(other).count() > best.1.count() {
                best = (other, options(other));
            }
        }
        best
    }

    /// Returns those of the wanted rights that can be granted; warns of the others.
    fn restricted(
        &self,
        grant: &GrantObjects,
        (wanted, is_all): (Rights, bool),
        may: Rights,
        name: &str,
        rows: &mut dyn RowSink,
    ) -> Rights {
        let rights = wanted & may;
        let state = if grant.is_grant { SqlState("01007") } else { SqlState("01006") };
        let done = if grant.is_grant { "were granted" } else { "could be revoked" };
        if rights.is_empty() {
            let message = format!("no privileges {done} for {name}");
            rows.notice("WARNING", &SqlError::new(state, message));
        } else if !is_all && rights != wanted {
            let message = format!("not all privileges {done} for {name}");
            rows.notice("WARNING", &SqlError::new(state, message));
        }
        rights
    }

    fn grant_roles(&self, active: &mut ActiveTransaction, grant: &GrantRoles, rows: &mut dyn RowSink) -> Result<()> {
        let grantor = match &grant.granted_by {
            Some(by) => self.role_meant(active, by)?,
            None => self.environment.role,
        };
        if grantor != self.environment.role && !active.catalog.is_superuser(self.environment.role) {
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "must be superuser to set grantor"));
        }
        for member in &grant.members {
            if name_of(member) == "public" && member.quote_style.is_none() {
                let message = "role \"public\" does not exist";
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
        }
        let members: Vec<_> =
            grant.members.iter().map(|member| self.role_meant(active, member)).collect::<Result<_>>()?;
        for role in &grant.roles {
            let role = self.role_meant(active, role)?;
            self.check_admin(active, role, false)?;
            for member in &members {
                match grant.is_grant {
                    true => self.add_member(active, (role, grantor), *member, grant.option, rows)?,
                    false => self.remove_member(active, role, *member, grant.option, rows)?,
                }
            }
        }
        Ok(())
    }

    /// Fails if the current role may not make others members of a role; a new role's creator may.
    pub(super) fn check_admin(&self, active: &ActiveTransaction, role: ObjectId, is_new: bool) -> Result<()> {
        let catalog = &active.catalog;
        let denied = |message: String| Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        if catalog.is_superuser(role) && !catalog.is_superuser(self.environment.role) {
            return denied("must be superuser to alter superusers".into());
        }
        if is_new || catalog.creates_roles(self.environment.role) || catalog.is_admin(self.environment.role, role) {
            return Ok(());
        }
        let name = catalog.role_name(role, self.environment).unwrap_or_default();
        denied(format!("must have admin option on role \"{name}\""))
    }

    /// Makes a role a member of another one.
    pub(super) fn add_member(
        &self,
        active: &mut ActiveTransaction,
        (role, grantor): (ObjectId, ObjectId),
        member: ObjectId,
        is_admin: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let name = |of| active.catalog.role_name(of, self.environment).unwrap_or_default().to_owned();
        if role == DATABASE_OWNER.1 {
            let message = format!("role \"{}\" cannot have explicit members", name(role));
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
        }
        if active.catalog.roles_of(role, false).contains(&member) {
            return Err(invalid(format!("role \"{}\" is a member of role \"{}\"", name(role), name(member))));
        }
        let mut traits = active.catalog.traits(member);
        match traits.member_of.iter_mut().find(|of| of.role == role) {
            Some(known) if known.is_admin || !is_admin => {
                let message = format!("role \"{}\" is already a member of role \"{}\"", name(member), name(role));
                rows.notice("NOTICE", &SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                return Ok(());
            }
            Some(known) => (known.is_admin, known.grantor) = (true, grantor),
            None => traits.member_of.push(Membership { role, grantor, is_admin }),
        }
        self.put_traits(active, traits)
    }

    fn remove_member(
        &self,
        active: &mut ActiveTransaction,
        role: ObjectId,
        member: ObjectId,
        only_option: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let mut traits = active.catalog.traits(member);
        let Some(at) = traits.member_of.iter().position(|of| of.role == role) else {
            let name = |of| active.catalog.role_name(of, self.environment).unwrap_or_default();
            let message = format!("role \"{}\" is not a member of role \"{}\"", name(member), name(role));
            rows.notice("WARNING", &SqlError::new(SqlState::WARNING, message));
            return Ok(());
        };
        match only_option {
            true => traits.member_of[at].is_admin = false,
            false => _ = traits.member_of.remove(at),
        }
        self.put_traits(active, traits)
    }
}

fn column_name(active: &ActiveTransaction, object: Object, at: usize) -> String {
    match (active.catalog.table(object.id), active.catalog.view(object.id)) {
        (Some(table), _) => table.def.columns[at].name.clone(),
        (None, Some(view)) => view.def.columns[at].name.clone(),
        (None, None) => String::new(),
    }
}

/// Applies the statement to a list, for each of its roles.
pub(super) fn apply_to(
    list: &mut Vec<Grant>,
    grant: &GrantObjects,
    roles: &[ObjectId],
    (owner, grantor): (ObjectId, ObjectId),
    rights: Rights,
) -> Result<()> {
    let mut granting = Granting { list, owner, cascades: grant.cascade };
    for role in roles {
        let (role, all) = (*role, Delta { role: *role, grantor, rights, options: rights });
        match (grant.is_grant, grant.option) {
            (true, true) => granting.grant(all)?,
            (true, false) => granting.grant(Delta { role, options: Rights::NONE, ..all })?,
            (false, true) => granting.revoke(Delta { role, rights: Rights::NONE, ..all })?,
            (false, false) => granting.revoke(all)?,
        }
    }
    Ok(())
}
