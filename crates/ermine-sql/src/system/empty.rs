//! System tables that are always empty: inheritance, policies, publications, triggers, functions of users and the like.

use super::{Described, PG_CATALOG};

macro_rules! empty {
    ($($oid:literal $name:ident { $($column:ident $kind:ident)* })*) => {
        &[$(Described {
            schema: PG_CATALOG,
            oid: $oid,
            name: stringify!($name),
            columns: &[$((stringify!($column), super::kind::$kind)),*],
            rows: |_| Vec::new(),
        }),*]
    };
}

pub(super) const TABLES: &[Described] = empty! {
    2611 pg_inherits { inhrelid OID inhparent OID inhseqno INT4 inhdetachpending BOOL }
    3350 pg_partitioned_table {
        partrelid OID partstrat TEXT partnatts INT2 partdefid OID partattrs INT2VECTOR partclass OIDVECTOR
        partcollation OIDVECTOR partexprs TEXT
    }
    3256 pg_policy {
        oid OID polname NAME polrelid OID polcmd TEXT polpermissive BOOL polroles OIDS polqual TEXT polwithcheck TEXT
    }
    3381 pg_statistic_ext {
        oid OID stxrelid OID stxname NAME stxnamespace OID stxowner OID stxstattarget INT4 stxkeys INT2VECTOR
        stxkind TEXTS stxexprs TEXT
    }
    6104 pg_publication {
        oid OID pubname NAME pubowner OID puballtables BOOL pubinsert BOOL pubupdate BOOL pubdelete BOOL
        pubtruncate BOOL pubviaroot BOOL
    }
    6237 pg_publication_namespace { oid OID pnpubid OID pnnspid OID }
    6106 pg_publication_rel { oid OID prpubid OID prrelid OID prqual TEXT prattrs INT2S }
    6100 pg_subscription { oid OID subdbid OID subname NAME subowner OID subenabled BOOL }
    2609 pg_description { objoid OID classoid OID objsubid INT4 description TEXT }
    2396 pg_shdescription { objoid OID classoid OID description TEXT }
    3596 pg_seclabel { objoid OID classoid OID objsubid INT4 provider TEXT label TEXT }
    2620 pg_trigger {
        oid OID tgrelid OID tgparentid OID tgname NAME tgfoid OID tgtype INT2 tgenabled TEXT tgisinternal BOOL
        tgconstrrelid OID
        tgconstrindid OID tgconstraint OID tgdeferrable BOOL tginitdeferred BOOL tgnargs INT2 tgattr INT2VECTOR
        tgargs TEXT tgqual TEXT
        tgoldtable NAME tgnewtable NAME
    }
    3466 pg_event_trigger { oid OID evtname NAME evtevent NAME evtowner OID evtfoid OID evtenabled TEXT evttags TEXTS }
    1255 pg_proc {
        oid OID proname NAME pronamespace OID proowner OID prolang OID procost FLOAT4 prorows FLOAT4 provariadic OID
        prosupport OID
        prokind TEXT prosecdef BOOL proleakproof BOOL proisstrict BOOL proretset BOOL provolatile TEXT proparallel TEXT
        pronargs INT2
        pronargdefaults INT2 prorettype OID proargtypes OIDVECTOR proallargtypes OIDS proargmodes TEXTS
        proargnames TEXTS proargdefaults TEXT
        protrftypes OIDS prosrc TEXT probin TEXT prosqlbody TEXT proconfig TEXTS proacl TEXTS
    }
    2600 pg_aggregate { aggfnoid OID aggkind TEXT aggnumdirectargs INT2 }
    2612 pg_language {
        oid OID lanname NAME lanowner OID lanispl BOOL lanpltrusted BOOL lanplcallfoid OID laninline OID
        lanvalidator OID lanacl TEXTS
    }
    3501 pg_enum { oid OID enumtypid OID enumsortorder FLOAT4 enumlabel NAME }
    3541 pg_range {
        rngtypid OID rngsubtype OID rngmultitypid OID rngcollation OID rngsubopc OID rngcanonical OID rngsubdiff OID
    }
    2605 pg_cast { oid OID castsource OID casttarget OID castfunc OID castcontext TEXT castmethod TEXT }
    2617 pg_operator {
        oid OID oprname NAME oprnamespace OID oprowner OID oprkind TEXT oprcanmerge BOOL oprcanhash BOOL oprleft OID
        oprright OID
        oprresult OID oprcom OID oprnegate OID oprcode OID oprrest OID oprjoin OID
    }
    2616 pg_opclass {
        oid OID opcmethod OID opcname NAME opcnamespace OID opcowner OID opcfamily OID opcintype OID opcdefault BOOL
        opckeytype OID
    }
    3079 pg_extension {
        oid OID extname NAME extowner OID extnamespace OID extrelocatable BOOL extversion TEXT extconfig OIDS
        extcondition TEXTS
    }
    2328 pg_foreign_data_wrapper {
        oid OID fdwname NAME fdwowner OID fdwhandler OID fdwvalidator OID fdwacl TEXTS fdwoptions TEXTS
    }
    1417 pg_foreign_server {
        oid OID srvname NAME srvowner OID srvfdw OID srvtype TEXT srvversion TEXT srvacl TEXTS srvoptions TEXTS
    }
    3118 pg_foreign_table { ftrelid OID ftserver OID ftoptions TEXTS }
    1418 pg_user_mapping { oid OID umuser OID umserver OID umoptions TEXTS }
    1261 pg_auth_members { roleid OID member OID grantor OID admin_option BOOL }
    826 pg_default_acl { oid OID defaclrole OID defaclnamespace OID defaclobjtype TEXT defaclacl TEXTS }
    2964 pg_db_role_setting { setdatabase OID setrole OID setconfig TEXTS }
    0 pg_group { groname NAME grosysid OID grolist OIDS }
    0 pg_matviews {
        schemaname NAME matviewname NAME matviewowner NAME tablespace NAME hasindexes BOOL ispopulated BOOL
        definition TEXT
    }
    0 pg_rules { schemaname NAME tablename NAME rulename NAME definition TEXT }
    0 pg_policies {
        schemaname NAME tablename NAME policyname NAME permissive TEXT roles NAMES cmd TEXT qual TEXT with_check TEXT
    }
};
