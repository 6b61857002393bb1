//! Tables of `information_schema` that are always empty: functions and types of users, triggers, foreign tables.

use super::{Described, INFORMATION, empty::empty};

pub(super) const TABLES: &[Described] = empty! { INFORMATION,
    0 attributes {
        udt_catalog NAME udt_schema NAME udt_name NAME attribute_name NAME ordinal_position INT4
        attribute_default TEXT is_nullable TEXT data_type TEXT character_maximum_length INT4
        character_octet_length INT4 character_set_catalog NAME character_set_schema NAME character_set_name NAME
        collation_catalog NAME collation_schema NAME collation_name NAME numeric_precision INT4
        numeric_precision_radix INT4 numeric_scale INT4 datetime_precision INT4 interval_type TEXT
        interval_precision INT4 attribute_udt_catalog NAME attribute_udt_schema NAME attribute_udt_name NAME
        scope_catalog NAME scope_schema NAME scope_name NAME maximum_cardinality INT4 dtd_identifier NAME
        is_derived_reference_attribute TEXT
    }
    0 check_constraint_routine_usage {
        constraint_catalog NAME constraint_schema NAME constraint_name NAME specific_catalog NAME specific_schema NAME
        specific_name NAME
    }
    0 column_column_usage {
        table_catalog NAME table_schema NAME table_name NAME column_name NAME dependent_column NAME
    }
    0 column_options {
        table_catalog NAME table_schema NAME table_name NAME column_name NAME option_name NAME option_value TEXT
    }
    0 foreign_data_wrapper_options {
        foreign_data_wrapper_catalog NAME foreign_data_wrapper_name NAME option_name NAME option_value TEXT
    }
    0 foreign_data_wrappers {
        foreign_data_wrapper_catalog NAME foreign_data_wrapper_name NAME authorization_identifier NAME
        library_name TEXT foreign_data_wrapper_language TEXT
    }
    0 foreign_server_options { foreign_server_catalog NAME foreign_server_name NAME option_name NAME option_value TEXT }
    0 foreign_servers {
        foreign_server_catalog NAME foreign_server_name NAME foreign_data_wrapper_catalog NAME
        foreign_data_wrapper_name NAME foreign_server_type TEXT foreign_server_version TEXT
        authorization_identifier NAME
    }
    0 foreign_table_options {
        foreign_table_catalog NAME foreign_table_schema NAME foreign_table_name NAME option_name NAME
        option_value TEXT
    }
    0 foreign_tables {
        foreign_table_catalog NAME foreign_table_schema NAME foreign_table_name NAME foreign_server_catalog NAME
        foreign_server_name NAME
    }
    0 parameters {
        specific_catalog NAME specific_schema NAME specific_name NAME ordinal_position INT4 parameter_mode TEXT
        is_result TEXT as_locator TEXT parameter_name NAME data_type TEXT character_maximum_length INT4
        character_octet_length INT4 character_set_catalog NAME character_set_schema NAME character_set_name NAME
        collation_catalog NAME collation_schema NAME collation_name NAME numeric_precision INT4
        numeric_precision_radix INT4 numeric_scale INT4 datetime_precision INT4 interval_type TEXT
        interval_precision INT4 udt_catalog NAME udt_schema NAME udt_name NAME scope_catalog NAME scope_schema NAME
        scope_name NAME maximum_cardinality INT4 dtd_identifier NAME parameter_default TEXT
    }
    0 role_routine_grants {
        grantor NAME grantee NAME specific_catalog NAME specific_schema NAME specific_name NAME routine_catalog NAME
        routine_schema NAME routine_name NAME privilege_type TEXT is_grantable TEXT
    }
    0 role_udt_grants {
        grantor NAME grantee NAME udt_catalog NAME udt_schema NAME udt_name NAME privilege_type TEXT is_grantable TEXT
    }
    0 routine_column_usage {
        specific_catalog NAME specific_schema NAME specific_name NAME routine_catalog NAME routine_schema NAME
        routine_name NAME table_catalog NAME table_schema NAME table_name NAME column_name NAME
    }
    0 routine_privileges {
        grantor NAME grantee NAME specific_catalog NAME specific_schema NAME specific_name NAME routine_catalog NAME
        routine_schema NAME routine_name NAME privilege_type TEXT is_grantable TEXT
    }
    0 routine_routine_usage {
        specific_catalog NAME specific_schema NAME specific_name NAME routine_catalog NAME routine_schema NAME
        routine_name NAME
    }
    0 routine_sequence_usage {
        specific_catalog NAME specific_schema NAME specific_name NAME routine_catalog NAME routine_schema NAME
        routine_name NAME sequence_catalog NAME sequence_schema NAME sequence_name NAME
    }
    0 routine_table_usage {
        specific_catalog NAME specific_schema NAME specific_name NAME routine_catalog NAME routine_schema NAME
        routine_name NAME table_catalog NAME table_schema NAME table_name NAME
    }
    0 routines {
        specific_catalog NAME specific_schema NAME specific_name NAME routine_catalog NAME routine_schema NAME
        routine_name NAME routine_type TEXT module_catalog NAME module_schema NAME module_name NAME udt_catalog NAME
        udt_schema NAME udt_name NAME data_type TEXT character_maximum_length INT4 character_octet_length INT4
        character_set_catalog NAME character_set_schema NAME character_set_name NAME collation_catalog NAME
        collation_schema NAME collation_name NAME numeric_precision INT4 numeric_precision_radix INT4
        numeric_scale INT4 datetime_precision INT4 interval_type TEXT interval_precision INT4 type_udt_catalog NAME
        type_udt_schema NAME type_udt_name NAME scope_catalog NAME scope_schema NAME scope_name NAME
        maximum_cardinality INT4 dtd_identifier NAME routine_body TEXT routine_definition TEXT external_name TEXT
        external_language TEXT parameter_style TEXT is_deterministic TEXT sql_data_access TEXT is_null_call TEXT
        sql_path TEXT schema_level_routine TEXT max_dynamic_result_sets INT4 is_user_defined_cast TEXT
        is_implicitly_invocable TEXT security_type TEXT to_sql_specific_catalog NAME to_sql_specific_schema NAME
        to_sql_specific_name NAME as_locator TEXT created TIME last_altered TIME new_savepoint_level TEXT
        is_udt_dependent TEXT result_cast_from_data_type TEXT result_cast_as_locator TEXT
        result_cast_char_max_length INT4 result_cast_char_octet_length INT4 result_cast_char_set_catalog NAME
        result_cast_char_set_schema NAME result_cast_char_set_name NAME result_cast_collation_catalog NAME
        result_cast_collation_schema NAME result_cast_collation_name NAME result_cast_numeric_precision INT4
        result_cast_numeric_precision_radix INT4 result_cast_numeric_scale INT4 result_cast_datetime_precision INT4
        result_cast_interval_type TEXT result_cast_interval_precision INT4 result_cast_type_udt_catalog NAME
        result_cast_type_udt_schema NAME result_cast_type_udt_name NAME result_cast_scope_catalog NAME
        result_cast_scope_schema NAME result_cast_scope_name NAME result_cast_maximum_cardinality INT4
        result_cast_dtd_identifier NAME
    }
    0 transforms {
        udt_catalog NAME udt_schema NAME udt_name NAME specific_catalog NAME specific_schema NAME specific_name NAME
        group_name NAME transform_type TEXT
    }
    0 triggered_update_columns {
        trigger_catalog NAME trigger_schema NAME trigger_name NAME event_object_catalog NAME event_object_schema NAME
        event_object_table NAME event_object_column NAME
    }
    0 triggers {
        trigger_catalog NAME trigger_schema NAME trigger_name NAME event_manipulation TEXT event_object_catalog NAME
        event_object_schema NAME event_object_table NAME action_order INT4 action_condition TEXT action_statement TEXT
        action_orientation TEXT action_timing TEXT action_reference_old_table NAME action_reference_new_table NAME
        action_reference_old_row NAME action_reference_new_row NAME created TIME
    }
    0 udt_privileges {
        grantor NAME grantee NAME udt_catalog NAME udt_schema NAME udt_name NAME privilege_type TEXT is_grantable TEXT
    }
    0 user_defined_types {
        user_defined_type_catalog NAME user_defined_type_schema NAME user_defined_type_name NAME
        user_defined_type_category TEXT is_instantiable TEXT is_final TEXT ordering_form TEXT ordering_category TEXT
        ordering_routine_catalog NAME ordering_routine_schema NAME ordering_routine_name NAME reference_type TEXT
        data_type TEXT character_maximum_length INT4 character_octet_length INT4 character_set_catalog NAME
        character_set_schema NAME character_set_name NAME collation_catalog NAME collation_schema NAME
        collation_name NAME numeric_precision INT4 numeric_precision_radix INT4 numeric_scale INT4
        datetime_precision INT4 interval_type TEXT interval_precision INT4 source_dtd_identifier NAME
        ref_dtd_identifier NAME
    }
    0 user_mapping_options {
        authorization_identifier NAME foreign_server_catalog NAME foreign_server_name NAME option_name NAME
        option_value TEXT
    }
    0 user_mappings { authorization_identifier NAME foreign_server_catalog NAME foreign_server_name NAME }
    0 view_routine_usage {
        table_catalog NAME table_schema NAME table_name NAME specific_catalog NAME specific_schema NAME
        specific_name NAME
    }
};
