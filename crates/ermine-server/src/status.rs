//! What the live page and `ermined top` show of the views, as one text of JSON.

/// A query whose only value is the text, as the role that runs it may see it.
pub const STATUS: &str = "SELECT json_build_object(
    'now', extract(epoch FROM clock_timestamp()),
    'version', version(),
    'user', current_user,
    'database', (SELECT row_to_json(d) FROM (
        SELECT xact_commit AS commits, xact_rollback AS rollbacks, extract(epoch FROM stats_reset) AS since
        FROM pg_stat_database) AS d),
    'memory', (SELECT row_to_json(m) FROM ermine_stat_memory AS m),
    'transactions', (SELECT row_to_json(t) FROM ermine_stat_transactions AS t),
    'log', (SELECT row_to_json(l) FROM ermine_stat_log AS l),
    'latency', (SELECT row_to_json(l) FROM ermine_stat_latency AS l),
    'standbys', (SELECT json_agg(s) FROM (
        SELECT name, lag_bytes, extract(epoch FROM clock_timestamp() - heard) AS silent_seconds
        FROM ermine_stat_standbys ORDER BY name) AS s),
    'aborts', (SELECT json_agg(a) FROM ermine_stat_aborts AS a WHERE aborts > 0),
    'sessions', (SELECT json_agg(s) FROM (
        SELECT pid, usename AS \"user\", application_name AS application, client_addr AS client, state,
            CASE WHEN state = 'active' THEN wait_event_type || ': ' || wait_event END AS waits,
            CASE WHEN state <> 'idle' THEN extract(epoch FROM clock_timestamp() - xact_start) END AS transaction_seconds,
            extract(epoch FROM clock_timestamp() - state_change) AS state_seconds, query
        FROM pg_stat_activity WHERE pid IS NOT NULL
        ORDER BY xact_start IS NULL OR state = 'idle', xact_start, pid LIMIT 200) AS s),
    'statements', (SELECT json_agg(s) FROM (
        SELECT query, calls, rows, total_exec_time AS total_ms, mean_exec_time AS mean_ms, max_exec_time AS max_ms,
            errors, conflicts, waits, wait_time AS wait_ms
        FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 50) AS s),
    'conflicts', (SELECT json_agg(c) FROM (
        SELECT relname AS table, statement, cause, conflicts FROM ermine_stat_conflicts
        ORDER BY conflicts DESC LIMIT 50) AS c),
    'hot_conflicts', (SELECT json_agg(c) FROM (
        SELECT relname AS table, key, cause, conflicts, story,
            extract(epoch FROM clock_timestamp() - last_conflict) AS last_seconds FROM ermine_stat_hot_conflicts
        ORDER BY conflicts DESC, last_conflict DESC LIMIT 20) AS c),
    'tables', (SELECT json_agg(t) FROM (
        SELECT schemaname || '.' || relname AS table, n_live_tup AS rows, n_tup_ins AS inserted, n_tup_upd AS updated,
            n_tup_del AS deleted, seq_scan AS scans, idx_scan AS lookups
        FROM pg_stat_user_tables ORDER BY n_tup_ins + n_tup_upd + n_tup_del + idx_scan + seq_scan DESC LIMIT 50) AS t))";
